#pragma once

#include <cstdint>

#include "loader/dataset/catalogue/sample_id.h"

namespace isocost {

/// The usable samples with a weight in the loss other than 0 and 1, of their own or of a turn.
struct WeightedSamples {
  std::uint64_t count = 0;
  SampleId first = 0;   ///< Valid if there are any.
  float weight = 1.0F;  ///< Weight of the first one; 1: a turn of it has another one.
};

}  // namespace isocost
