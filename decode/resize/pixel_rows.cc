#include "decode/resize/pixel_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "decode/resize/internal/rgb.h"

namespace isocost {
namespace {

std::int32_t copied_rows(std::int32_t width, std::int32_t height) {
  const std::size_t rows = kResampleSlack / rgb_row_bytes(width) + 1;
  return std::min(static_cast<std::int32_t>(rows), height);
}

}  // namespace

MemoryRows::MemoryRows(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height)
    : rgb_(rgb),
      width_(width),
      height_(height),
      copied_from_(height - copied_rows(width, height)),
      tail_(static_cast<std::size_t>(height - copied_from_) * rgb_row_bytes(width) +
            kResampleSlack) {
  std::ranges::copy(rgb.last(tail_.size() - kResampleSlack), tail_.begin());
}

Status MemoryRows::read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) {
  for (std::size_t i = 0; i < kResampleBatch; ++i) {
    const std::int32_t y = std::min(first + static_cast<std::int32_t>(i), height_ - 1);
    rows[i] = y < copied_from_ ? rgb_.data() + static_cast<std::size_t>(y) * rgb_row_bytes(width_)
                               : tail_.data() + static_cast<std::size_t>(y - copied_from_) *
                                                    rgb_row_bytes(width_);
  }
  return {};
}

std::int64_t MemoryRows::working_set_bytes(std::int32_t width, std::int32_t height) {
  return std::int64_t{copied_rows(width, height)} * width * 3 + std::int64_t{kResampleSlack};
}

}  // namespace isocost
