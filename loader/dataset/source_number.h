#pragma once

#include <cstddef>

#include "loader/dataset/dataset.h"

namespace isocost {

/// Returns the number of the source that has a sample, among Dataset::sources: `id` <
/// Dataset::size.
std::size_t source_number(const Dataset& dataset, SampleId id);

}  // namespace isocost
