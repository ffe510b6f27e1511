#pragma once

#include <span>

#include "base/result.h"
#include "loader/dataset/internal/listed_source.h"

namespace isocost {

/// Refuses sources that read one shard in two ways, since it has one index and one file of tokens,
/// which they would replace by turns. Errors: kInvalidArgument with both names and a remedy; kIo.
Status check_shared_shards(std::span<const ListedSource> sources);

}  // namespace isocost
