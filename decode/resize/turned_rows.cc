#include "decode/resize/turned_rows.h"

#include <algorithm>
#include <cstddef>

namespace isocost {
namespace {

// Pixels of a stored row that are read together where sides are exchanged.
constexpr std::int32_t kRows = 32;
static_assert(kRows % kResampleBatch == 0);

}  // namespace

TurnedRows::TurnedRows(std::span<const std::uint8_t> stored, std::int32_t width,
                       std::int32_t height, std::uint8_t orientation)
    : stored_(stored),
      walk_(pixel_walk(orientation, width, height, std::ptrdiff_t{width} * 3)),
      width_(exchanges_sides(orientation) ? height : width),
      height_(exchanges_sides(orientation) ? width : height),
      rows_(static_cast<std::size_t>(working_set_bytes(width_, height_))) {}

Status TurnedRows::read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) {
  const std::int32_t last = height_ - 1;
  const auto batch = static_cast<std::int32_t>(kResampleBatch);
  first = std::min(first, last);
  if (first < begin_ || std::min(first + batch, height_) > end_) turn(first);
  for (std::size_t i = 0; i < kResampleBatch; ++i) {
    const std::int32_t y = std::min(first + static_cast<std::int32_t>(i), last);
    rows[i] = &rows_[static_cast<std::size_t>(y - begin_) * static_cast<std::size_t>(width_) * 3];
  }
  return {};
}

void TurnedRows::turn(std::int32_t first) {
  begin_ = first;
  end_ = std::min(first + kRows, height_);
  PixelWalk walk = walk_;
  walk.start += first * walk.down;
  copy_turned(stored_.data(), walk, width_, end_ - begin_, rows_);
}

std::int64_t TurnedRows::working_set_bytes(std::int32_t width, std::int32_t height) {
  return std::int64_t{std::min(kRows, height)} * width * 3 + std::int64_t{kResampleSlack};
}

}  // namespace isocost
