#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds the text of a saved state, which trainer_adapter/state.h defines, for
/// isocost/connection/state.py.
void bind_state(pybind11::module_& module);

}  // namespace isocost::python
