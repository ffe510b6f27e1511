#pragma once

#include <string_view>

#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Returns the sample that a user names: "shard/key", in a mixture "source/shard/key", or a key
/// that only one sample has. Names of shards and keys may hold slashes: the longest shard that fits
/// is meant. A name as messages print it (printable_name) will do. `data`: the user's words for the
/// data set. Reads the keys of all samples at most. Errors: kNotFound with names that are
/// similar, kInvalidArgument if several samples have the key, kCorrupt for a bad sample.
Result<SampleId> find_sample(const Dataset& dataset, std::string_view name, std::string_view data);

}  // namespace isocost
