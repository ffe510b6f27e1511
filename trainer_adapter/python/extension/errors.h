#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "base/result.h"

namespace isocost::python {

/// Raises the Python exception that isocost/errors.py names for the error's code. Call it with the
/// GIL.
[[noreturn]] void raise(const Error& error);

/// Returns a result's value, or raises its error as a Python exception. Call it with the GIL.
template <typename T>
T value(Result<T>&& result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace isocost::python
