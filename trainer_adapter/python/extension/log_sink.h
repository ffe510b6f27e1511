#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "base/log.h"

namespace isocost::python {

/// A Python function that threads without the GIL hold, and release with it.
std::shared_ptr<pybind11::function> hold(const pybind11::function& function);

/// Calls `on_log(level, text)` with the GIL, which the calling thread must not wait for while it
/// holds a lock. What the function raises is printed.
LogSink log_sink(const pybind11::function& on_log);

}  // namespace isocost::python
