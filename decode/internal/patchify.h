#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "decode/internal/patch_grid.h"

namespace isocost {

/// The place of a picture among those that share patches: frame `index` of `depth`.
struct FrameSlot {
  std::int32_t depth = 1;
  std::int32_t index = 0;
};

/// Cuts a picture of the grid's size into patches, rows of RGB pixels, the four of each 2×2 group
/// one after another, groups row by row. `rgb` is packed and as stored: of the grid's size once
/// EXIF `orientation` (1..8) has turned it, which happens on the way. `patches` has `slot.depth`
/// times the grid's bytes, and each patch that many rows, of which this fills row `slot.index`.
void patchify(std::span<const std::uint8_t> rgb, std::uint8_t orientation, PatchGrid grid,
              std::span<std::byte> patches, FrameSlot slot = {});

}  // namespace isocost
