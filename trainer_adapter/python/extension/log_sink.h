#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string_view>

#include "base/log.h"

namespace isocost::python {

/// Returns a Python function that threads without the GIL may hold, and that is released with the
/// GIL.
std::shared_ptr<pybind11::function> hold(const pybind11::function& function);

/// Calls `on_log(level, text)`. Prints what it raises, unless that is no Exception: a signal's
/// handler, which the main thread may run meanwhile, raises KeyboardInterrupt, and that is thrown.
/// Call it with the GIL.
void log_here(const pybind11::function& on_log, LogLevel level, std::string_view text);

/// Returns a sink that calls `on_log(level, text)` with the GIL. The calling thread must hold no
/// lock while it waits for the GIL. Prints what the function raises.
LogSink log_sink(const pybind11::function& on_log);

}  // namespace isocost::python
