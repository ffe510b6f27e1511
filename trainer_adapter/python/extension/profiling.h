#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `ProfilingMethod` and `ProfilingRun`: the method by which model profiles are measured
/// (costmodel/profiling_method.h). This binding needs little, so that machines without the packages
/// of a loader node can build it alone: see bench/gpu/README.md.
void bind_profiling(pybind11::module_& module);

}  // namespace isocost::python
