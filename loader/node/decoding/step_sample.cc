#include "loader/node/decoding/step_sample.h"

namespace isocost {

std::vector<TensorSpec> specs_of(std::span<const NamedTensor> tensors) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const NamedTensor& named : tensors) {
    specs.push_back({named.name, named.tensor.dtype, named.tensor.shape});
  }
  return specs;
}

}  // namespace isocost
