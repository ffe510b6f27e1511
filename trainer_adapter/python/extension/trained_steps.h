#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `_isocost.TrainedSteps`, which decides which microbatches are trained.
void bind_trained_steps(pybind11::module_& module);

}  // namespace isocost::python
