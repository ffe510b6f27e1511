#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace isocost {

/// What each of the 256 values of a channel becomes, red first: made with the arithmetic of a
/// model's processor, the result is equal to the bit.
using PixelTable = std::span<const float, std::size_t{3} * 256>;

/// How a processor makes such a table: (value * rescale - mean) / deviation, by channel, in float32
/// but for the product.
struct PixelArithmetic {
  double rescale = 1;
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{};
};

/// Makes float32 values of pixels. Immutable, so thread-safe.
class PixelValues {
 public:
  /// Looks values up in a copy of the table. Where the processor's vectors give each of the table's
  /// values by `arithmetic`, to the bit, it computes them instead, which is faster and gives the
  /// same.
  explicit PixelValues(PixelTable table,
                       const std::optional<PixelArithmetic>& arithmetic = std::nullopt);

  /// Whether they are computed. For tests and benchmarks.
  bool computes() const { return computes_; }

  /// Normalises packed RGB pixels, each channel into a row of its own.
  void of(const std::uint8_t* rgb, std::size_t pixels, const std::array<float*, 3>& rows) const;

 private:
  bool gives_table() const;

  std::array<float, PixelTable::extent> table_{};
  PixelArithmetic arithmetic_;
  bool computes_ = false;
};

/// How many frames a model's patch spans.
struct PatchFrames {
  std::size_t given = 1;   ///< Rows of `vision.patches` that are one patch of a video.
  std::size_t copies = 1;  ///< How often each is repeated, as a picture stands for several frames.
};

/// Normalises rows of packed RGB pixels, as `vision.patches` has them. `rows` is uint8 [n, given,
/// pixels, 3], `into` float32 [n, 3, given, copies, pixels]: the channels apart. Thread-safe;
/// computes on the calling thread.
void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels,
                      const PixelValues& values, PatchFrames frames, std::span<float> into);

/// The size of a picture, and how it is cut into the rows of `vision.patches`: squares of `patch`
/// pixels, those of a square group of `merge` x `merge` patches one after another, groups row by
/// row. Where the sides are no multiples of a group's, the last groups reach beyond the picture.
struct PictureLayout {
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t patch = 14;
  std::size_t merge = 2;

  std::size_t group_side() const { return patch * merge; }
  std::size_t groups_across() const { return (width + group_side() - 1) / group_side(); }
  /// Rows of `vision.patches` that are one picture.
  std::size_t patches() const {
    return groups_across() * ((height + group_side() - 1) / group_side()) * merge * merge;
  }
  /// Bytes of a patch.
  std::size_t patch_bytes() const { return patch * patch * 3; }
};

/// Normalises pictures that are cut into patches, and puts them together. `patches` is uint8 [n,
/// patches, patch, patch, 3], `into` float32 [n, 3, height, width]. Thread-safe; computes on the
/// calling thread.
void normalise_pictures(std::span<const std::uint8_t> patches, const PictureLayout& layout,
                        const PixelValues& values, std::span<float> into);

}  // namespace isocost
