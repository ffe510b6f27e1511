#include "trainer_adapter/normalise.h"

#include <algorithm>
#include <vector>

namespace isocost {
namespace {

constexpr std::size_t kChannels = 3;
constexpr std::size_t kValues = 256;

// One channel of packed pixels.
void look_up(const std::uint8_t* from, std::size_t pixels, const float* values, float* to) {
  for (std::size_t i = 0; i < pixels; ++i) to[i] = values[from[i * kChannels]];
}

// All channels of packed pixels, each into the row of its own plane. A function of its own, since
// its loop needs the registers.
[[gnu::noinline]] void look_up_pixels(const std::uint8_t* from, std::size_t pixels,
                                      const float* values, float* __restrict red,
                                      float* __restrict green, float* __restrict blue) {
  for (std::size_t i = 0; i < pixels; ++i) {
    red[i] = values[from[i * kChannels]];
    green[i] = values[kValues + from[i * kChannels + 1]];
    blue[i] = values[2 * kValues + from[i * kChannels + 2]];
  }
}

// A picture's row, of the patches that it crosses. `patches` points to its pixels in the first one;
// `plane` is the distance from a channel to the next.
void look_up_row(const std::uint8_t* patches, const PictureLayout& layout, PixelTable table,
                 std::size_t plane, float* to) {
  const std::size_t group_bytes = layout.patch_bytes() * layout.merge * layout.merge;
  std::size_t x = 0;
  for (; x < layout.width; patches += group_bytes) {
    const std::uint8_t* from = patches;
    for (std::size_t i = 0; i < layout.merge && x < layout.width; ++i) {
      const std::size_t pixels = std::min(layout.patch, layout.width - x);
      float* const red = to + x;
      look_up_pixels(from, pixels, table.data(), red, red + plane, red + 2 * plane);
      from += layout.patch_bytes();
      x += pixels;
    }
  }
}

/// A row of groups, in memory that stays in the cache: a picture's row crosses all of them, and
/// reading it from where they come from would wait for each patch.
class GroupRow {
 public:
  explicit GroupRow(const PictureLayout& layout)
      : layout_(layout),
        bytes_(layout.patch_bytes() * layout.merge * layout.merge * layout.groups_across()) {}

  /// Takes the row of groups in which row `y` of the picture begins.
  void take(const std::uint8_t* patches, std::size_t y) {
    const std::uint8_t* from = patches + y / layout_.group_side() * bytes_.size();
    std::copy_n(from, bytes_.size(), bytes_.begin());
  }

  /// The pixels of row `y` of the picture in the first patch that it crosses.
  [[nodiscard]] const std::uint8_t* row(std::size_t y) const {
    const std::size_t patch_row = y / layout_.patch % layout_.merge;
    return bytes_.data() + patch_row * layout_.patch_bytes() * layout_.merge +
           y % layout_.patch * layout_.patch * kChannels;
  }

 private:
  const PictureLayout& layout_;
  std::vector<std::uint8_t> bytes_;
};

void normalise_picture(const std::uint8_t* patches, const PictureLayout& layout, PixelTable table,
                       GroupRow& groups, float* into) {
  const std::size_t plane = layout.height * layout.width;
  for (std::size_t y = 0; y < layout.height; ++y) {
    if (y % layout.group_side() == 0) groups.take(patches, y);
    look_up_row(groups.row(y), layout, table, plane, into + y * layout.width);
  }
}

}  // namespace

void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels, PixelTable table,
                      PatchFrames frames, std::span<float> into) {
  const std::size_t frame_bytes = pixels * kChannels;
  const std::size_t patch_bytes = frames.given * frame_bytes;
  float* to = into.data();
  for (std::size_t at = 0; at + patch_bytes <= rows.size() && patch_bytes > 0; at += patch_bytes) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      const float* values = table.data() + channel * kValues;
      for (std::size_t frame = 0; frame < frames.given; ++frame) {
        float* const first = to;
        look_up(rows.data() + at + frame * frame_bytes + channel, pixels, values, first);
        to += pixels;
        for (std::size_t copy = 1; copy < frames.copies; ++copy)
          to = std::copy_n(first, pixels, to);
      }
    }
  }
}

void normalise_pictures(std::span<const std::uint8_t> patches, const PictureLayout& layout,
                        PixelTable table, std::span<float> into) {
  const std::size_t bytes = layout.patches() * layout.patch_bytes();
  const std::size_t values = kChannels * layout.height * layout.width;
  GroupRow groups(layout);
  float* to = into.data();
  for (std::size_t at = 0; at + bytes <= patches.size() && bytes > 0; at += bytes, to += values) {
    normalise_picture(patches.data() + at, layout, table, groups, to);
  }
}

}  // namespace isocost
