#pragma once

#include <functional>
#include <string>

#include "decode/shape/sample_shape.h"

namespace isocost {

/// Returns why a sample of this shape cannot be used; empty: it can be.
using ShapeCheck = std::function<std::string(const SampleShape&)>;

}  // namespace isocost
