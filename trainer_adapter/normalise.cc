#include "trainer_adapter/normalise.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "trainer_adapter/internal/pixel_arithmetic.h"
#include "trainer_adapter/internal/written_once.h"

namespace isocost {
namespace {

constexpr std::size_t kChannels = 3;
constexpr std::size_t kValues = 256;

// Looks up all channels of packed pixels, each into the row of its own plane. This is a function of
// its own, since its loop needs the registers.
[[gnu::noinline]] void look_up_pixels(const std::uint8_t* from, std::size_t pixels,
                                      const float* values, float* __restrict red,
                                      float* __restrict green, float* __restrict blue) {
  for (std::size_t i = 0; i < pixels; ++i) {
    red[i] = values[from[i * kChannels]];
    green[i] = values[kValues + from[i * kChannels + 1]];
    blue[i] = values[2 * kValues + from[i * kChannels + 2]];
  }
}

// Throws unless the bytes form whole units, and there is room for the values of as many.
void check_sizes(std::size_t bytes, std::size_t unit_bytes, std::size_t values,
                 std::size_t unit_values) {
  const std::size_t units = unit_bytes > 0 ? bytes / unit_bytes : 0;
  if (unit_bytes > 0 && bytes % unit_bytes == 0 && values == units * unit_values) return;
  throw_exception(Error(ErrorCode::kInvalidArgument,
                        "pixels: " + std::to_string(bytes) + " bytes in units of " +
                            std::to_string(unit_bytes) + " do not give the " +
                            std::to_string(values) + " values that are asked for, " +
                            std::to_string(unit_values) + " for a unit"));
}

// A picture's rows in one row of groups. A row crosses the patches of all these groups, and reading
// it from there would wait for each patch, so the patches are read once, in their order.
class GroupRows {
 public:
  explicit GroupRows(const PictureLayout& layout)
      : layout_(layout),
        row_bytes_(layout.groups_across() * layout.group_side() * kChannels),
        bytes_(layout.group_side() * row_bytes_) {}

  /// Takes the row of groups in which row `y` of the picture begins.
  void take(const std::uint8_t* patches, std::size_t y) {
    const std::size_t merge = layout_.merge;
    const std::uint8_t* from = patches + y / layout_.group_side() * bytes_.size();
    for (std::size_t group = 0; group < layout_.groups_across(); ++group) {
      for (std::size_t patch = 0; patch < merge * merge; ++patch, from += layout_.patch_bytes()) {
        take_patch(from, patch / merge * layout_.patch,
                   (group * merge + patch % merge) * layout_.patch);
      }
    }
  }

  /// Returns the pixels of row `y` of the picture.
  [[nodiscard]] const std::uint8_t* row(std::size_t y) const {
    return bytes_.data() + y % layout_.group_side() * row_bytes_;
  }

 private:
  void take_patch(const std::uint8_t* from, std::size_t y, std::size_t x) {
    constexpr std::size_t kUsual = std::size_t{14} * kChannels;
    const std::size_t bytes = layout_.patch * kChannels;
    std::uint8_t* to = bytes_.data() + y * row_bytes_ + x * kChannels;
    for (std::size_t row = 0; row < layout_.patch; ++row, from += bytes, to += row_bytes_) {
      // A copy of a size that the compiler knows is a few instructions.
      if (bytes == kUsual) {
        std::memcpy(to, from, kUsual);
      } else {
        std::memcpy(to, from, bytes);
      }
    }
  }

  const PictureLayout& layout_;
  std::size_t row_bytes_;
  std::vector<std::uint8_t> bytes_;
};

void normalise_picture(const std::uint8_t* patches, const PictureLayout& layout,
                       const PixelValues& values, GroupRows& groups, float* into) {
  const std::size_t plane = layout.height * layout.width;
  for (std::size_t y = 0; y < layout.height; ++y) {
    if (y % layout.group_side() == 0) groups.take(patches, y);
    float* const to = into + y * layout.width;
    values.of(groups.row(y), layout.width, {to, to + plane, to + 2 * plane});
  }
}

// Copies each run of `length` values `copies` times.
void repeat_runs(const std::vector<float>& values, std::size_t length, std::size_t copies,
                 std::vector<float>& into) {
  float* to = into.data();
  for (std::size_t first = 0; first < values.size(); first += length) {
    for (std::size_t copy = 0; copy < copies; ++copy) {
      to = std::copy_n(values.data() + first, length, to);
    }
  }
}

}  // namespace

PixelValues::PixelValues(PixelTable table, const std::optional<PixelArithmetic>& arithmetic)
    : arithmetic_(arithmetic.value_or(PixelArithmetic{})) {
  std::ranges::copy(table, table_.begin());
  computes_ = arithmetic && gives_table();
}

// Returns whether the computed values are the table's, for all 256 values of each channel, which
// are all that can occur.
bool PixelValues::gives_table() const {
  std::array<std::uint8_t, kChannels * kValues> pixels{};
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i / kChannels);
  std::array<float, PixelTable::extent> made{};
  float* const to = made.data();
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  return compute_pixels(pixels.data(), kValues, arithmetic_,
                        {to, to + kValues, to + 2 * kValues}) &&
         std::ranges::equal(made, table_, {}, bits, bits);
}

void PixelValues::of(const std::uint8_t* rgb, std::size_t pixels,
                     const std::array<float*, 3>& rows) const {
  if (computes_) {
    compute_pixels(rgb, pixels, arithmetic_, rows);
  } else {
    look_up_pixels(rgb, pixels, table_.data(), rows[0], rows[1], rows[2]);
  }
}

// Makes each patch in memory that stays in the cache, and then writes it out from its beginning to
// its end: writing the channels' rows side by side would wait for memory at three places.
void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels,
                      const PixelValues& values, PatchFrames frames, std::span<float> into) {
  const std::size_t frame_bytes = pixels * kChannels;
  const std::size_t patch_bytes = frames.given * frame_bytes;
  const std::size_t channel = frames.given * pixels;
  check_sizes(rows.size(), patch_bytes, into.size(), kChannels * channel * frames.copies);
  if (rows.empty()) return;
  std::vector<float> patch(kChannels * channel);
  const bool repeats = frames.copies != 1;
  std::vector<float> repeated(repeats ? patch.size() * frames.copies : 0);
  const std::vector<float>& whole = repeats ? repeated : patch;
  const WrittenOnce result(WrittenOnce::pays_past_caches(into.size_bytes()));
  float* to = into.data();
  for (std::size_t at = 0; at + patch_bytes <= rows.size() && patch_bytes > 0; at += patch_bytes) {
    for (std::size_t frame = 0; frame < frames.given; ++frame) {
      float* const red = patch.data() + frame * pixels;
      values.of(rows.data() + at + frame * frame_bytes, pixels,
                {red, red + channel, red + 2 * channel});
    }
    if (repeats) repeat_runs(patch, pixels, frames.copies, repeated);
    result.write(whole.data(), whole.size(), to);
    to += whole.size();
  }
}

void normalise_pictures(std::span<const std::uint8_t> patches, const PictureLayout& layout,
                        const PixelValues& values, std::span<float> into) {
  const bool has_groups = layout.group_side() > 0;
  const std::size_t bytes = has_groups ? layout.patches() * layout.patch_bytes() : 0;
  const std::size_t picture = kChannels * layout.height * layout.width;
  check_sizes(patches.size(), bytes, into.size(), picture);
  GroupRows groups(layout);
  float* to = into.data();
  for (std::size_t at = 0; at + bytes <= patches.size() && bytes > 0; at += bytes, to += picture) {
    normalise_picture(patches.data() + at, layout, values, groups, to);
  }
}

}  // namespace isocost
