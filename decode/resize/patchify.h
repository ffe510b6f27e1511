#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/resize/patch_grid.h"
#include "decode/resize/pixel_rows.h"

namespace isocost {

/// The slot of a picture among those that share patches: frame `index` of `depth`.
struct FrameSlot {
  std::int32_t depth = 1;
  std::int32_t index = 0;
};

/// Cuts a displayed picture of the grid's size into patches, rows of RGB pixels, the four of each
/// 2×2 group one after another, groups row by row. `rgb` is packed. `patches` has `slot.depth`
/// times the grid's bytes, and each patch that many rows, of which this fills row `slot.index`.
void patchify(std::span<const std::uint8_t> rgb, PatchGrid grid, std::span<std::byte> patches,
              FrameSlot slot = {});

/// Cuts a displayed picture's rows into patches, as patchify does. Collects the rows of a patch, so
/// that patches are written one after another while the rows are in the cache. The picture lies at
/// `x`, `y` of the grid, and the rest is black.
class PatchRows final : public RowSink {
 public:
  PatchRows(PatchGrid grid, std::span<std::byte> patches, FrameSlot slot, std::int32_t x,
            std::int32_t y, std::int32_t width, std::int32_t height);

  std::span<std::uint8_t> next_row() override;
  void finish_row() override;

  /// Returns an upper bound of the bytes that it allocates.
  static std::int64_t working_set_bytes(std::int32_t width);

 private:
  void clear_border(std::int32_t width, std::int32_t height);
  std::span<std::byte> patch(std::ptrdiff_t row, std::ptrdiff_t column) const;
  void write_patches();

  PatchGrid grid_;
  std::span<std::byte> patches_;
  FrameSlot slot_;
  std::int32_t x_;
  std::int32_t y_;  // number of the first collected row
  std::int32_t end_;
  std::int32_t collected_ = 0;
  std::size_t row_bytes_;
  std::vector<std::uint8_t> rows_;
};

}  // namespace isocost
