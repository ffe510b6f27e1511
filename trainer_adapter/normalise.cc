#include "trainer_adapter/normalise.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr std::size_t kChannels = 3;
constexpr std::size_t kValues = 256;

// One channel of packed pixels.
void look_up(const std::uint8_t* from, std::size_t pixels, const float* values, float* to) {
  for (std::size_t i = 0; i < pixels; ++i) to[i] = values[from[i * kChannels]];
}

// A picture's row, of the patches that it crosses. `patches` points to its pixels in the first one.
void look_up_row(const std::uint8_t* patches, const PictureLayout& layout, PixelTable table,
                 std::size_t channel, float* to) {
  const float* values = table.data() + channel * kValues;
  const std::size_t group_bytes = layout.patch_bytes() * layout.merge * layout.merge;
  std::size_t x = 0;
  for (; x < layout.width; patches += group_bytes) {
    const std::uint8_t* from = patches + channel;
    for (std::size_t i = 0; i < layout.merge && x < layout.width; ++i) {
      const std::size_t pixels = std::min(layout.patch, layout.width - x);
      look_up(from, pixels, values, to + x);
      from += layout.patch_bytes();
      x += pixels;
    }
  }
}

void normalise_picture(const std::uint8_t* patches, const PictureLayout& layout, PixelTable table,
                       float* into) {
  const std::size_t plane = layout.height * layout.width;
  const std::size_t patch_row_bytes = layout.patch_bytes() * layout.merge;  // within a group
  const std::size_t group_row_bytes = patch_row_bytes * layout.merge * layout.groups_across();
  for (std::size_t y = 0; y < layout.height; ++y) {
    const std::size_t patch_row = y / layout.patch;
    const std::uint8_t* row = patches + patch_row / layout.merge * group_row_bytes +
                              patch_row % layout.merge * patch_row_bytes +
                              y % layout.patch * layout.patch * kChannels;
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      look_up_row(row, layout, table, channel, into + channel * plane + y * layout.width);
    }
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
  float* to = into.data();
  for (std::size_t at = 0; at + bytes <= patches.size() && bytes > 0; at += bytes, to += values) {
    normalise_picture(patches.data() + at, layout, table, to);
  }
}

}  // namespace isocost
