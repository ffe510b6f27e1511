#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/byte_range.h"
#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/stores/internal/object_chunk.h"
#include "loader/dataset/stores/internal/object_pass.h"

namespace isocost {

/// The bytes of an object, some ranges of which are asked for at once and kept as long as this
/// object lives. Const-safe.
class FetchedRanges final : public ByteSource {
 public:
  /// Begins to fetch ranges, cut at the end of the object, and returns. `stop` ends the requests
  /// that are under way, and so does the end of this object.
  FetchedRanges(const std::shared_ptr<const ObjectFile>& file, std::span<const ByteRange> ranges,
                const std::stop_token& stop);

  std::int64_t size() const override { return rest_.size(); }
  /// Waits for the bytes of the ranges. Bytes beside them are read by an ObjectPass. Errors: those
  /// of ObjectStore::read.
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  std::vector<std::unique_ptr<const ObjectChunk>> chunks_;
  const ObjectPass rest_;
};

}  // namespace isocost
