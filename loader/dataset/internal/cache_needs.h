#pragma once

#include <span>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/internal/listed_source.h"

namespace isocost {

/// Checks that there is a cache where shards on servers need one: if samples are read again, a
/// compressed shard would be fetched whole whenever it is opened. Checks that it has room for all
/// of these, or, where shards are drawn from by windows, for the windows: that of the present and
/// that of the next samples of each source, since pieces that are removed before they are used are
/// fetched again for every sample. Errors: kInvalidArgument with what to do.
Status check_cache_needs(std::span<const ListedSource> sources, const DatasetOptions& options);

}  // namespace isocost
