#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "decode/resize/resample_kernels.h"

namespace isocost {

/// A picture's rows from the top down, packed RGB: in memory, or decoded while they are read.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  virtual std::int32_t width() const = 0;
  virtual std::int32_t height() const = 0;
  /// Restricts the columns that are needed to those from `first` up to `end`, before any row is
  /// read, so that others may be left out. Returns the column with which rows begin from then on.
  /// Errors: those of the decoder.
  virtual Result<std::int32_t> restrict_columns(std::int32_t /*first*/, std::int32_t /*end*/) {
    return 0;
  }
  /// Points to the rows `first`, `first` + 1, ...; beyond the last row, to the last. They have
  /// kResampleSlack readable bytes after them, and are valid until the next call. `first` is at
  /// least that of the last call and kResampleBatch. Errors: those of the decoder.
  virtual Status read(std::int32_t first,
                      std::array<const std::uint8_t*, kResampleBatch>& rows) = 0;
};

/// Takes a picture's rows from the top down.
class RowSink {
 public:
  RowSink() = default;
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;
  virtual ~RowSink() = default;

  /// Return the place for the next row, and report that it has been written.
  virtual std::span<std::uint8_t> next_row() = 0;
  virtual void finish_row() = 0;
};

/// The rows of packed RGB that outlives it.
class MemoryRows final : public RowSource {
 public:
  MemoryRows(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height);

  std::int32_t width() const override { return width_; }
  std::int32_t height() const override { return height_; }
  Status read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) override;

  /// Returns the bytes that it allocates.
  static std::int64_t working_set_bytes(std::int32_t width, std::int32_t height);

 private:
  std::span<const std::uint8_t> rgb_;
  std::int32_t width_;
  std::int32_t height_;
  // Number of the first row that is copied: the last rows are too near to the end of the picture's
  // memory.
  std::int32_t copied_from_;
  std::vector<std::uint8_t> tail_;
};

}  // namespace isocost
