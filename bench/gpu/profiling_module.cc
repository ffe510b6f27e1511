// isocost._isocost with only the profiler's method: bench/gpu/profiling.py builds it where the
// package is not built.

#include <pybind11/pybind11.h>

#include "trainer_adapter/python/extension/profiling.h"

PYBIND11_MODULE(_isocost, module) { isocost::python::bind_profiling(module); }
