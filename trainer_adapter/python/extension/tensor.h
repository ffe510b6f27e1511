#pragma once

#include <pybind11/pybind11.h>

#include "base/tensor.h"

namespace isocost::python {

/// Binds `_isocost.Tensor`: a SharedTensor that other libraries read in place, through DLPack
/// (torch) or the buffer protocol (numpy). A consumer keeps the bytes alive.
void bind_tensor(pybind11::module_& module);

/// Returns a DLPack capsule over the tensor's bytes, for a consumer. Call it with the GIL.
pybind11::object to_dlpack(const SharedTensor& tensor);

}  // namespace isocost::python
