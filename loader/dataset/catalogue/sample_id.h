#pragma once

#include <cstdint>

namespace isocost {

/// A sample's number in its data set, 0 to size - 1: shards in the order of their names, samples in
/// the order of the shard. Depends only on the data set's bytes.
using SampleId = std::uint64_t;

}  // namespace isocost
