#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// `_isocost.Tensor`: a SharedTensor that other libraries read in place, through DLPack (torch) or
/// the buffer protocol (numpy). Whoever took it keeps the bytes alive.
void bind_tensor(pybind11::module_& module);

}  // namespace isocost::python
