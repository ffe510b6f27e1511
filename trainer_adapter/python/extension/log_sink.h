#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "base/log.h"

namespace isocost::python {

/// Returns a Python function that threads without the GIL may hold, and that is released with the
/// GIL.
std::shared_ptr<pybind11::function> hold(const pybind11::function& function);

/// Returns a sink that calls `on_log(level, text)` with the GIL. The calling thread must hold no
/// lock while it waits for the GIL. Prints what the function raises.
LogSink log_sink(const pybind11::function& on_log);

}  // namespace isocost::python
