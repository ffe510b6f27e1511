#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `_isocost.Client` and `_isocost.Microbatch`: trainer_adapter/client.h for Python.
void bind_client(pybind11::module_& module);

}  // namespace isocost::python
