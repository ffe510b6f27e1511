#include "decode/image/internal/png_rows.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace isocost {
namespace {

// Returns the left, upper or upper left neighbour, whichever is nearest to left + up - upper left.
int paeth(int left, int up, int corner) {
  const int to_left = std::abs(up - corner);
  const int to_up = std::abs(left - corner);
  const int to_corner = std::abs(left + up - 2 * corner);
  if (to_left <= to_up && to_left <= to_corner) return left;
  return to_up <= to_corner ? up : corner;
}

template <class Predict>
void restore(std::size_t pixel_bytes, const std::uint8_t* row, const std::uint8_t* above,
             std::size_t bytes, std::uint8_t* to, Predict predict) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const int left = i < pixel_bytes ? 0 : to[i - pixel_bytes];
    const int corner = i < pixel_bytes ? 0 : above[i - pixel_bytes];
    to[i] = static_cast<std::uint8_t>(row[i] + predict(left, above[i], corner));
  }
}

void unfilter(PngFilter filter, std::size_t pixel_bytes, const std::uint8_t* row,
              const std::uint8_t* above, std::size_t bytes, std::uint8_t* to) {
  const auto with = [&](auto predict) { restore(pixel_bytes, row, above, bytes, to, predict); };
  switch (filter) {
    case PngFilter::kNone:
      std::memmove(to, row, bytes);
      return;
    case PngFilter::kSub:
      return with([](int left, int, int) { return left; });
    case PngFilter::kUp:
      return with([](int, int up, int) { return up; });
    case PngFilter::kAverage:
      return with([](int left, int up, int) { return (left + up) / 2; });
    case PngFilter::kPaeth:
      return with(paeth);
  }
}

void drop_alpha(const std::uint8_t* rgba, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i) std::memcpy(rgb + 3 * i, rgba + 4 * i, 3);
}

void on_white(const std::uint8_t* rgba, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i, rgba += 4, rgb += 3) {
    const unsigned white = 255U * (255U - rgba[3]) + 127U;
    for (std::size_t c = 0; c < 3; ++c) {
      rgb[c] = static_cast<std::uint8_t>((rgba[c] * unsigned{rgba[3]} + white) / 255U);
    }
  }
}

constexpr PngRowKernels kPortable = {unfilter, drop_alpha, on_white};

}  // namespace

const PngRowKernels& portable_png_kernels() { return kPortable; }

}  // namespace isocost
