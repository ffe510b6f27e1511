#pragma once

#include <cstddef>
#include <string_view>

#include "loader/dataset/dataset.h"

namespace isocost::cli {

/// Returns whether a data set is a mixture, whose sources have names.
bool has_sources(const Dataset& dataset);

/// Returns the number of the source that has a shard of this name, also a lost one.
std::size_t source_of_shard(const Dataset& dataset, std::string_view shard);

}  // namespace isocost::cli
