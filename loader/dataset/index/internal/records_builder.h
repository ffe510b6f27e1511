#pragma once

#include <stop_token>
#include <string>

#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/record_shard.h"

namespace isocost {

/// Reads the records of a shard, finds the files of their media and probes each of them. A record
/// or a medium that cannot be read makes its sample bad, with line and file in the reason; reads
/// that the machine refuses do not, since the next pass may succeed. `name` is the shard's name,
/// for messages. Holds one record at a time. Blocks on reads; runs on the calling thread. Errors:
/// kIo, kCancelled; those of RecordsFile::open.
Result<IndexContents> build_records_index(const RecordShard& shard, const std::string& name,
                                          const ProbeLimits& limits, const SampleReading& reading,
                                          const std::stop_token& stop);

}  // namespace isocost
