#include "decode/internal/orientation.h"

#include <algorithm>
#include <array>

namespace isocost {
namespace {

constexpr std::ptrdiff_t kPixel = 3;

}  // namespace

PixelWalk pixel_walk(std::uint8_t orientation, std::int32_t stored_width,
                     std::int32_t stored_height, std::ptrdiff_t stride) {
  const std::ptrdiff_t right = (stored_width - 1) * kPixel;
  const std::ptrdiff_t bottom = (stored_height - 1) * stride;
  const std::array<PixelWalk, 8> walks = {{{0, kPixel, stride},
                                           {right, -kPixel, stride},
                                           {right + bottom, -kPixel, -stride},
                                           {bottom, kPixel, -stride},
                                           {0, stride, kPixel},
                                           {bottom, -stride, kPixel},
                                           {right + bottom, -stride, -kPixel},
                                           {right, stride, -kPixel}}};
  return walks.at(std::clamp<std::size_t>(orientation, 1, 8) - 1);
}

void copy_turned(const std::uint8_t* stored, const PixelWalk& walk, std::int32_t width,
                 std::int32_t height, std::span<std::uint8_t> to) {
  std::uint8_t* out = to.data();
  for (std::int32_t y = 0; y < height; ++y) {
    const std::uint8_t* from = stored + walk.start + y * walk.down;
    if (walk.along == kPixel) {
      out = std::copy_n(from, width * kPixel, out);
      continue;
    }
    for (std::int32_t x = 0; x < width; ++x, from += walk.along) {
      out = std::copy_n(from, kPixel, out);
    }
  }
}

}  // namespace isocost
