#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// `_isocost.normalised_pixels`: pixels on the CPU as a model takes them.
void bind_pixels(pybind11::module_& module);

}  // namespace isocost::python
