#pragma once

#include <pybind11/pybind11.h>

#include "base/tensor.h"

namespace isocost::python {

/// `_isocost.Tensor`: a SharedTensor that other libraries read in place, through DLPack (torch) or
/// the buffer protocol (numpy). Whoever took it keeps the bytes alive.
void bind_tensor(pybind11::module_& module);

/// A DLPack capsule over the tensor's bytes, for who takes it over. With the GIL.
pybind11::object to_dlpack(const SharedTensor& tensor);

}  // namespace isocost::python
