#include "decode/resize/orientation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "decode/resize/internal/rgb.h"

namespace isocost {

PixelWalk pixel_walk(std::uint8_t orientation, std::int32_t stored_width,
                     std::int32_t stored_height, std::ptrdiff_t stride) {
  const std::ptrdiff_t right = (stored_width - 1) * kRgbBytes;
  const std::ptrdiff_t bottom = (stored_height - 1) * stride;
  const std::array<PixelWalk, 8> walks = {{{0, kRgbBytes, stride},
                                           {right, -kRgbBytes, stride},
                                           {right + bottom, -kRgbBytes, -stride},
                                           {bottom, kRgbBytes, -stride},
                                           {0, stride, kRgbBytes},
                                           {bottom, -stride, kRgbBytes},
                                           {right + bottom, -stride, -kRgbBytes},
                                           {right, stride, -kRgbBytes}}};
  return walks.at(std::clamp<std::size_t>(orientation, 1, 8) - 1);
}

// Copies a picture as it is displayed. Rows that keep their direction, as in most videos, are
// copied whole. Others are copied in squares: where sides are exchanged, a row of one picture is a
// column of the other, and each of its pixels is in another cache line.
void copy_turned(const std::uint8_t* stored, const PixelWalk& walk, std::int32_t width,
                 std::int32_t height, std::span<std::uint8_t> to) {
  constexpr std::int32_t kSquare = 64;  // two squares of 12 KiB are in the first-level cache
  const std::size_t row_bytes = rgb_row_bytes(width);
  if (walk.along == kRgbBytes) {
    for (std::int32_t y = 0; y < height; ++y) {
      std::memcpy(&to[static_cast<std::size_t>(y) * row_bytes], stored + walk.start + y * walk.down,
                  row_bytes);
    }
    return;
  }
  for (std::int32_t top = 0; top < height; top += kSquare) {
    const std::int32_t bottom = std::min(top + kSquare, height);
    for (std::int32_t left = 0; left < width; left += kSquare) {
      const std::int32_t right = std::min(left + kSquare, width);
      for (std::int32_t y = top; y < bottom; ++y) {
        const std::uint8_t* from = stored + walk.start + y * walk.down + left * walk.along;
        std::uint8_t* out = &to[static_cast<std::size_t>(y) * row_bytes +
                                static_cast<std::size_t>(left) * kRgbBytes];
        for (std::int32_t x = left; x < right; ++x, from += walk.along, out += kRgbBytes) {
          std::memcpy(out, from, kRgbBytes);
        }
      }
    }
  }
}

}  // namespace isocost
