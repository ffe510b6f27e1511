#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "decode/resize/pixel_rows.h"
#include "decode/resize/resample_kernels.h"
#include "decode/shape/decode_limit.h"

namespace isocost {

/// The rows of another source as long as the limit allows. The source and the limit must outlive
/// it. Errors: also those of DecodeLimit::check.
class LimitedRows final : public RowSource {
 public:
  LimitedRows(RowSource& rows, const DecodeLimit& limit)
      : rows_(rows), limit_(limit), begun_(limit.used()) {}

  std::int32_t width() const override { return rows_.width(); }
  std::int32_t height() const override { return rows_.height(); }
  Result<std::int32_t> restrict_columns(std::int32_t first, std::int32_t end) override {
    return rows_.restrict_columns(first, end);
  }
  Status read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) override {
    // Reads per check of the limit: 128 rows of the largest pictures take some milliseconds, and
    // reading the clock 0.3 us.
    constexpr int kReadsForEach = 16;
    if (reads_++ % kReadsForEach == 0) {
      ISOCOST_TRY(limit_.check(begun_, static_cast<double>(first) / height()));
    }
    return rows_.read(first, rows);
  }

 private:
  RowSource& rows_;
  const DecodeLimit& limit_;
  const std::chrono::nanoseconds begun_;
  std::int64_t reads_ = 0;
};

}  // namespace isocost
