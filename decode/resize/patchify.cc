#include "decode/resize/patchify.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "decode/resize/internal/rgb.h"
#include "decode/resize/patch_grid.h"

namespace isocost {
namespace {

// Copies pixels; sizes that the compiler knows become a few moves rather than a call.
void copy_pixels(const std::uint8_t* from, std::ptrdiff_t count, std::byte* to) {
  switch (count) {
    case 14:
      std::memcpy(to, from, 14 * kRgbBytes);
      break;
    case 16:
      std::memcpy(to, from, 16 * kRgbBytes);
      break;
    default:
      std::memcpy(to, from, static_cast<std::size_t>(count * kRgbBytes));
  }
}

// Prefetches memory that will be written into the cache.
void prefetch(const std::byte* memory, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(memory + at, 1);
}

}  // namespace

void patchify(std::span<const std::uint8_t> rgb, PatchGrid grid, std::span<std::byte> patches,
              FrameSlot slot) {
  const std::ptrdiff_t side = grid.side;
  const std::ptrdiff_t row_bytes = grid.width() * kRgbBytes;
  std::byte* to = patches.data() + slot.index * grid.patch_bytes();
  const std::int64_t step = slot.depth * grid.patch_bytes();
  for (std::ptrdiff_t group_row = 0; group_row < grid.rows; group_row += 2) {
    for (std::ptrdiff_t group_column = 0; group_column < grid.columns; group_column += 2) {
      for (std::ptrdiff_t i = 0; i < 4; ++i, to += step) {
        const std::uint8_t* from = rgb.data() + (group_row + i / 2) * side * row_bytes +
                                   (group_column + i % 2) * side * kRgbBytes;
        for (std::ptrdiff_t y = 0; y < side; ++y, from += row_bytes) {
          copy_pixels(from, side, to + y * side * kRgbBytes);
        }
      }
    }
  }
}

PatchRows::PatchRows(PatchGrid grid, std::span<std::byte> patches, FrameSlot slot, std::int32_t x,
                     std::int32_t y, std::int32_t width, std::int32_t height)
    : grid_(grid),
      patches_(patches),
      slot_(slot),
      x_(x),
      y_(y),
      end_(y + height),
      row_bytes_(static_cast<std::size_t>(width * kRgbBytes)),
      rows_(static_cast<std::size_t>(grid.side) * row_bytes_) {
  if (width != grid.width() || height != grid.height()) clear_border(width, height);
}

std::int64_t PatchRows::working_set_bytes(std::int32_t width) {
  return std::int64_t{kMostPatchSide} * width * kRgbBytes;
}

// Clears patches that the picture covers in part only. Patches that it covers are written as a
// whole, unless its rows end early, which is an error.
void PatchRows::clear_border(std::int32_t width, std::int32_t height) {
  const std::int32_t side = grid_.side;
  const auto covered = [side](std::int32_t index, std::int32_t begin, std::int32_t size) {
    return index * side >= begin && (index + 1) * side <= begin + size;
  };
  for (std::int32_t row = 0; row < grid_.rows; ++row) {
    for (std::int32_t column = 0; column < grid_.columns; ++column) {
      if (covered(row, y_, height) && covered(column, x_, width)) continue;
      std::ranges::fill(patch(row, column), std::byte{0});
    }
  }
}

std::span<std::byte> PatchRows::patch(std::ptrdiff_t row, std::ptrdiff_t column) const {
  const std::ptrdiff_t group = row / 2 * (grid_.columns / 2) + column / 2;
  const std::ptrdiff_t index = group * 4 + row % 2 * 2 + column % 2;
  const auto bytes = static_cast<std::size_t>(grid_.patch_bytes());
  return patches_.subspan(static_cast<std::size_t>(index * slot_.depth + slot_.index) * bytes,
                          bytes);
}

std::span<std::uint8_t> PatchRows::next_row() {
  return std::span(rows_).subspan(static_cast<std::size_t>(collected_) * row_bytes_, row_bytes_);
}

void PatchRows::finish_row() {
  ++collected_;
  const std::int32_t end = y_ + collected_;
  if (end % grid_.side != 0 && end != end_) return;
  write_patches();
  y_ = end;
  collected_ = 0;
}

void PatchRows::write_patches() {
  const std::int64_t bytes = grid_.patch_bytes();
  const std::ptrdiff_t side = grid_.side;
  const std::ptrdiff_t step = slot_.depth * bytes;
  // Finds the first row's place in the first patch of its row of patches.
  std::byte* const first = patch(y_ / side, 0).data() + y_ % side * side * kRgbBytes;
  const std::uint8_t* from = rows_.data();
  auto left = static_cast<std::ptrdiff_t>(row_bytes_) / kRgbBytes;
  std::ptrdiff_t within = x_ % side;
  for (std::ptrdiff_t column = x_ / side; left > 0; ++column, within = 0) {
    std::byte* to = first + (column / 2 * 4 + column % 2) * step + within * kRgbBytes;
    if (column + 2 < grid_.columns) prefetch(to + 4 * step, bytes);
    const std::ptrdiff_t count = std::min(side - within, left);
    const std::uint8_t* row = from;
    for (std::int32_t i = 0; i < collected_; ++i, row += row_bytes_, to += side * kRgbBytes) {
      copy_pixels(row, count, to);
    }
    from += count * kRgbBytes;
    left -= count;
  }
}

}  // namespace isocost
