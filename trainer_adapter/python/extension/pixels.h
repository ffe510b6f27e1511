#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// `_isocost.PixelNormaliser`: makes what a model takes of pixels on the CPU.
void bind_pixels(pybind11::module_& module);

}  // namespace isocost::python
