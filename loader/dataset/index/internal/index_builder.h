#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// Reads the shard's tar headers, groups members into samples and probes each part in place. Faults
/// of samples become bad entries, those of the archive its state; reads that the machine refuses do
/// not, since the next pass may succeed. `place` says what is read of the tar. `samples_when_whole`
/// is that of an earlier index; 0: there is none. Blocks on reads; runs on the
/// calling thread. Errors: kIo, kCancelled.
Result<IndexContents> build_index(const std::shared_ptr<const ShardFile>& shard,
                                  const ShardPlace& place, const ProbeLimits& limits,
                                  const SampleReading& reading, std::uint64_t samples_when_whole,
                                  const std::stop_token& stop);

}  // namespace isocost
