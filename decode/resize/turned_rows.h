#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "decode/resize/orientation.h"
#include "decode/resize/pixel_rows.h"
#include "decode/resize/resample_kernels.h"

namespace isocost {

/// The rows of a picture as it is displayed, made of stored packed RGB that outlives it. A few rows
/// at a time are turned, so that they are in the cache when they are read.
class TurnedRows final : public RowSource {
 public:
  /// `width` and `height` are as stored, `orientation` is EXIF's number.
  TurnedRows(std::span<const std::uint8_t> stored, std::int32_t width, std::int32_t height,
             std::uint8_t orientation);

  std::int32_t width() const override { return width_; }
  std::int32_t height() const override { return height_; }
  Status read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) override;

  /// Returns the bytes that it allocates for a picture of these sides, as displayed.
  static std::int64_t working_set_bytes(std::int32_t width, std::int32_t height);

 private:
  void turn(std::int32_t first);

  std::span<const std::uint8_t> stored_;
  PixelWalk walk_;
  std::int32_t width_;  // as displayed
  std::int32_t height_;
  std::int32_t begin_ = 0;  // range of the turned rows
  std::int32_t end_ = 0;
  std::vector<std::uint8_t> rows_;
};

}  // namespace isocost
