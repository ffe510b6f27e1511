#pragma once

#include <memory>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/node/internal/blocks_of_sources.h"
#include "loader/node/node_options.h"
#include "loader/plan/mixture_cursor.h"

namespace isocost {

/// Returns the mixture of a data set's sources; null if the options name none. `blocks`: the orders
/// of the sources with shuffle = blocks. Errors: those of Mixture::create and MixtureCursor::saved.
Result<std::shared_ptr<const MixtureCursor>> mixture_of_sources(const NodeOptions& options,
                                                                const Dataset& dataset,
                                                                const BlocksOfSources& blocks);

}  // namespace isocost
