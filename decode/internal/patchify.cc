#include "decode/internal/patchify.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "decode/internal/patch_grid.h"

namespace isocost {
namespace {

constexpr std::ptrdiff_t kPixel = 3;
constexpr std::size_t kRowBytes = std::size_t{3} * kPatchSide;

/// Walking displayed pixels, a step to the right and one down are each a constant step among the
/// stored ones.
struct Walk {
  std::ptrdiff_t start, along, down;
};

Walk walk_of(std::uint8_t orientation, PatchGrid grid) {
  const std::ptrdiff_t columns = orientation > 4 ? grid.height() : grid.width();
  const std::ptrdiff_t rows = orientation > 4 ? grid.width() : grid.height();
  const std::ptrdiff_t row = columns * kPixel;
  const std::ptrdiff_t right = row - kPixel;
  const std::ptrdiff_t bottom = (rows - 1) * row;
  const std::array<Walk, 8> walks = {{{0, kPixel, row},
                                      {right, -kPixel, row},
                                      {right + bottom, -kPixel, -row},
                                      {bottom, kPixel, -row},
                                      {0, row, kPixel},
                                      {bottom, -row, kPixel},
                                      {right + bottom, -row, -kPixel},
                                      {right, row, -kPixel}}};
  return walks[std::clamp<std::size_t>(orientation, 1, 8) - 1];
}

void copy_patch(const std::uint8_t* from, const Walk& walk, std::byte* to) {
  for (std::int32_t y = 0; y < kPatchSide; ++y, from += walk.down, to += kRowBytes) {
    if (walk.along == kPixel) {
      std::memcpy(to, from, kRowBytes);
      continue;
    }
    for (std::ptrdiff_t x = 0; x < kPatchSide; ++x) {
      std::memcpy(to + x * kPixel, from + x * walk.along, kPixel);
    }
  }
}

}  // namespace

void patchify(std::span<const std::uint8_t> rgb, std::uint8_t orientation, PatchGrid grid,
              std::span<std::byte> patches) {
  const Walk walk = walk_of(orientation, grid);
  const std::uint8_t* origin = rgb.data() + walk.start;
  std::byte* to = patches.data();
  for (std::ptrdiff_t group_row = 0; group_row < grid.rows; group_row += 2) {
    for (std::ptrdiff_t group_column = 0; group_column < grid.columns; group_column += 2) {
      for (std::ptrdiff_t i = 0; i < 4; ++i, to += kPatchBytes) {
        const std::ptrdiff_t y = (group_row + i / 2) * kPatchSide;
        const std::ptrdiff_t x = (group_column + i % 2) * kPatchSide;
        copy_patch(origin + y * walk.down + x * walk.along, walk, to);
      }
    }
  }
}

}  // namespace isocost
