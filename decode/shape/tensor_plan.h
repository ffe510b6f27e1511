#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor_schema.h"

namespace isocost {

/// One of a sample's tensors before it is made.
struct TensorPlan {
  const TensorEntry* entry = nullptr;
  std::vector<std::int64_t> shape;
};

}  // namespace isocost
