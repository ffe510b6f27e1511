#include "decode/prepare/rope_positions.h"

#include <algorithm>
#include <cstddef>

namespace isocost {
namespace {

constexpr std::size_t kColumns = 3;

void put(std::span<std::int32_t>& rows, std::int32_t time, std::int32_t row, std::int32_t column) {
  rows[0] = time;
  rows[1] = row;
  rows[2] = column;
  rows = rows.subspan(kColumns);
}

}  // namespace

void RopePositions::text(std::span<std::int32_t> rows) {
  while (!rows.empty()) {
    put(rows, next_, next_, next_);
    ++next_;
  }
}

void RopePositions::pictures(std::span<std::int32_t> rows, std::int64_t pictures, PatchGrid grid,
                             float interval) {
  const std::int32_t down = grid.rows / 2;
  const std::int32_t across = grid.columns / 2;
  std::int32_t largest = std::max(down, across) - 1;
  for (std::int64_t i = 0; i < pictures; ++i) {
    const auto time = static_cast<std::int32_t>(static_cast<float>(i) * interval);
    largest = std::max(largest, time);
    for (std::int32_t row = 0; row < down; ++row) {
      for (std::int32_t column = 0; column < across; ++column) {
        put(rows, next_ + time, next_ + row, next_ + column);
      }
    }
  }
  next_ += largest + 1;
}

}  // namespace isocost
