#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `_isocost.PixelNormaliser`, which makes a model's pixel values on the CPU.
void bind_pixels(pybind11::module_& module);

}  // namespace isocost::python
