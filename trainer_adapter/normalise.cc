#include "trainer_adapter/normalise.h"

#include <algorithm>

namespace isocost {

void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels, PixelTable table,
                      std::size_t copies, std::span<float> into) {
  constexpr std::size_t kChannels = 3;
  constexpr std::size_t kValues = 256;
  const std::size_t row_bytes = pixels * kChannels;
  float* to = into.data();
  for (std::size_t row = 0; row + row_bytes <= rows.size() && row_bytes > 0; row += row_bytes) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      const std::uint8_t* from = rows.data() + row + channel;
      const float* values = table.data() + channel * kValues;
      float* const first = to;
      for (std::size_t i = 0; i < pixels; ++i) to[i] = values[from[i * kChannels]];
      to += pixels;
      for (std::size_t copy = 1; copy < copies; ++copy) to = std::copy_n(first, pixels, to);
    }
  }
}

}  // namespace isocost
