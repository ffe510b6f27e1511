#pragma once

#include <string>

namespace isocost {

/// Kernels for one set of vector instructions, and its name.
template <typename Kernels>
struct SimdTarget {
  std::string name;
  Kernels kernels;
};

}  // namespace isocost
