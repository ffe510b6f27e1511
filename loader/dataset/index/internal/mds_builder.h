#pragma once

#include <memory>
#include <stop_token>

#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// Compares an MDS shard's file with what the index of its data set states, reads it whole once for
/// its hashes, and probes the values of its samples in place. A file of another size or hash makes
/// the shard lost, values that do not fill their sample make this one bad. `file` is the file of
/// `place`, open. Blocks on reads. Errors: kIo, kCancelled.
Result<IndexContents> build_mds_index(const std::shared_ptr<const ShardFile>& file,
                                      const ShardPlace& place, const ProbeLimits& limits,
                                      const SampleReading& reading, const std::stop_token& stop);

}  // namespace isocost
