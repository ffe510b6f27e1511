#pragma once

#include <span>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/internal/listed_source.h"

namespace isocost {

/// Checks that a cache has room for the windows of shards that are drawn from: that of the present
/// and that of the next samples of each source, since pieces that are removed before they are used
/// are fetched again for every sample. Errors: kInvalidArgument with the room and what to do.
Status check_room_of_windows(std::span<const ListedSource> sources, const DatasetOptions& options);

}  // namespace isocost
