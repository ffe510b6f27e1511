#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/result.h"

namespace isocost {

/// Normalised values of the 256 values of each channel, red first. Made with the arithmetic of a
/// model's processor, they are bit-identical to its results.
using PixelTable = std::span<const float, std::size_t{3} * 256>;

/// A processor's arithmetic for such a table: (value * rescale - mean) / deviation, by channel, in
/// float32 except for the product.
struct PixelArithmetic {
  double rescale = 1;
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{1, 1, 1};

  /// Reads the settings of the image processor in a model's directory: preprocessor_config.json or,
  /// as newer versions of transformers write it, `image_processor` of processor_config.json.
  /// Numbers that it lacks are 1/255 and CLIP's mean and deviation, as for the node. Errors:
  /// kNotFound, kIo, and kInvalidArgument, which name the file and the key.
  static Result<PixelArithmetic> of_model(const std::filesystem::path& directory);

  /// Returns the normalised values of the 256 values of each channel.
  std::array<float, PixelTable::extent> table() const;
};

/// Makes float32 values of pixels. Immutable, so thread-safe.
class PixelValues {
 public:
  /// Looks values up in a copy of the table. Computes them instead, which is faster, where the
  /// processor's vectors give each of the table's values by `arithmetic`, bit by bit.
  explicit PixelValues(PixelTable table,
                       const std::optional<PixelArithmetic>& arithmetic = std::nullopt);

  /// Returns whether values are computed. For tests and benchmarks.
  bool computes() const { return computes_; }

  /// Normalises packed RGB pixels, each channel into a row of its own.
  void of(const std::uint8_t* rgb, std::size_t pixels, const std::array<float*, 3>& rows) const;

 private:
  bool gives_table() const;

  std::array<float, PixelTable::extent> table_{};
  PixelArithmetic arithmetic_;
  bool computes_ = false;
};

/// Frames that a model's patch spans.
struct PatchFrames {
  std::size_t given = 1;   ///< Rows of "vision_patches" that form one patch of a video.
  std::size_t copies = 1;  ///< Repeats of each row, where a picture represents several frames.
};

/// Normalises rows of packed RGB pixels, as "vision_patches" has them. `rows` is uint8 [n, given,
/// pixels, 3], `into` float32 [n, 3, given, copies, pixels]: the channels apart. Throws
/// isocost::Exception (kInvalidArgument) for other sizes. Thread-safe; computes on the calling
/// thread.
void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels,
                      const PixelValues& values, PatchFrames frames, std::span<float> into);

/// The size of a picture, and how it is cut into the rows of "vision_patches": squares of `patch`
/// pixels. Patches of a square group of `merge` x `merge` are consecutive, and groups come row by
/// row. If the sides are no multiples of a group's side, the last groups reach beyond the
/// picture.
struct PictureLayout {
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t patch = 14;
  std::size_t merge = 2;

  std::size_t group_side() const { return patch * merge; }
  std::size_t groups_across() const { return (width + group_side() - 1) / group_side(); }
  /// Returns the number of rows of "vision_patches" that form one picture.
  std::size_t patches() const {
    return groups_across() * ((height + group_side() - 1) / group_side()) * merge * merge;
  }
  /// Returns the bytes of a patch.
  std::size_t patch_bytes() const { return patch * patch * 3; }
};

/// Normalises pictures that are cut into patches, and puts them together. `patches` is uint8 [n,
/// patches, patch, patch, 3], `into` float32 [n, 3, height, width]. Throws isocost::Exception
/// (kInvalidArgument) for other sizes, and for a side of 0. Thread-safe; computes on the calling
/// thread.
void normalise_pictures(std::span<const std::uint8_t> patches, const PictureLayout& layout,
                        const PixelValues& values, std::span<float> into);

}  // namespace isocost
