#include "decode/internal/patchify.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "decode/internal/orientation.h"
#include "decode/internal/patch_grid.h"

namespace isocost {
namespace {

constexpr std::ptrdiff_t kPixel = 3;

void copy_patch(const std::uint8_t* from, const PixelWalk& walk, std::int32_t side, std::byte* to) {
  const auto row_bytes = static_cast<std::size_t>(side * kPixel);
  for (std::int32_t y = 0; y < side; ++y, from += walk.down, to += row_bytes) {
    if (walk.along == kPixel) {
      std::memcpy(to, from, row_bytes);
      continue;
    }
    for (std::ptrdiff_t x = 0; x < side; ++x) {
      std::memcpy(to + x * kPixel, from + x * walk.along, kPixel);
    }
  }
}

}  // namespace

void patchify(std::span<const std::uint8_t> rgb, std::uint8_t orientation, PatchGrid grid,
              std::span<std::byte> patches, FrameSlot slot) {
  const bool lies = orientation > 4;  // its sides are exchanged
  const std::int32_t columns = lies ? grid.height() : grid.width();
  const std::int32_t rows = lies ? grid.width() : grid.height();
  const PixelWalk walk = pixel_walk(orientation, columns, rows, columns * kPixel);
  const std::uint8_t* origin = rgb.data() + walk.start;
  std::byte* to = patches.data() + slot.index * grid.patch_bytes();
  const std::int64_t stride = slot.depth * grid.patch_bytes();
  for (std::ptrdiff_t group_row = 0; group_row < grid.rows; group_row += 2) {
    for (std::ptrdiff_t group_column = 0; group_column < grid.columns; group_column += 2) {
      for (std::ptrdiff_t i = 0; i < 4; ++i, to += stride) {
        const std::ptrdiff_t y = (group_row + i / 2) * grid.side;
        const std::ptrdiff_t x = (group_column + i % 2) * grid.side;
        copy_patch(origin + y * walk.down + x * walk.along, walk, grid.side, to);
      }
    }
  }
}

}  // namespace isocost
