#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `_isocost.NodeOptions`, made of the settings that were given, and `_isocost.Node`: a
/// loader node on threads of this process, for embedded use.
void bind_node(pybind11::module_& module);

}  // namespace isocost::python
