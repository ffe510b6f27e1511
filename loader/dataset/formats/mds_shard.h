#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/formats/mds_columns.h"

namespace isocost {

/// The place of a value in a shard.
struct MdsValue {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// The samples of a raw MDS shard:
///
///   uint32 number of samples n | uint32 offsets[n + 1] | JSON of the writer | samples
///
/// with a sample as the uint32 sizes of the columns that have no fixed one, and the values; all
/// little endian. The source must outlive it. Const-safe.
class MdsShardReader {
 public:
  /// Opens a shard with the number of samples and the columns that its index states. Errors:
  /// kCorrupt if the shard is another one or is cut off; kIo.
  static Result<MdsShardReader> open(const ByteSource& source, std::int64_t samples,
                                     std::span<const MdsColumn> columns);

  std::int64_t samples() const { return samples_; }
  /// Returns the bytes of a sample. Errors: kCorrupt, kIo.
  Result<MdsValue> range(std::int64_t i) const;
  /// Returns the values of a sample, one for each column. Errors: kCorrupt if they do not fill the
  /// sample's bytes; kIo.
  Result<std::vector<MdsValue>> sample(std::int64_t i) const;

 private:
  MdsShardReader(const ByteSource& source, std::int64_t samples, std::span<const MdsColumn> columns)
      : source_(&source), samples_(samples), columns_(columns.begin(), columns.end()) {}

  const ByteSource* source_;
  std::int64_t samples_;
  std::vector<MdsColumn> columns_;
};

/// Returns the values of a sample that lies at `range`, one for each column. Errors: as above.
Result<std::vector<MdsValue>> mds_values(const ByteSource& source, const MdsValue& range,
                                         std::span<const MdsColumn> columns);

/// Returns the columns that the shard itself states, before its samples. Errors: those of
/// mds_column; kCorrupt, kIo.
Result<std::vector<MdsColumn>> mds_header_columns(const ByteSource& source);

}  // namespace isocost
