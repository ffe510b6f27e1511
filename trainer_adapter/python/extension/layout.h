#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `_isocost.Layout`: a layout file, checked, and the places of its ranks
/// (balancer/layout/place.h).
void bind_layout(pybind11::module_& module);

}  // namespace isocost::python
