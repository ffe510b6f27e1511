#include "trainer_adapter/normalise.h"

#include <algorithm>

namespace isocost {

void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels, PixelTable table,
                      PatchFrames frames, std::span<float> into) {
  constexpr std::size_t kChannels = 3;
  constexpr std::size_t kValues = 256;
  const std::size_t frame_bytes = pixels * kChannels;
  const std::size_t patch_bytes = frames.given * frame_bytes;
  float* to = into.data();
  for (std::size_t at = 0; at + patch_bytes <= rows.size() && patch_bytes > 0; at += patch_bytes) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      const float* values = table.data() + channel * kValues;
      for (std::size_t frame = 0; frame < frames.given; ++frame) {
        const std::uint8_t* from = rows.data() + at + frame * frame_bytes + channel;
        float* const first = to;
        for (std::size_t i = 0; i < pixels; ++i) to[i] = values[from[i * kChannels]];
        to += pixels;
        for (std::size_t copy = 1; copy < frames.copies; ++copy)
          to = std::copy_n(first, pixels, to);
      }
    }
  }
}

}  // namespace isocost
