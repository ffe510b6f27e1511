#include "trainer_adapter/python/extension/log_sink.h"

#include <string_view>

#include "trainer_adapter/python/extension/os_text.h"

namespace isocost::python {

namespace py = pybind11;

std::shared_ptr<py::function> hold(const py::function& function) {
  return {new py::function(function), [](py::function* held) {
            const py::gil_scoped_acquire acquired;
            delete held;
          }};
}

void log_here(const py::function& on_log, LogLevel level, std::string_view text) {
  try {
    on_log(static_cast<int>(level), readable(text));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
    error.discard_as_unraisable("isocost log");
  }
}

LogSink log_sink(const py::function& on_log) {
  return [callback = hold(on_log)](LogLevel level, std::string_view text) {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire acquired;
    try {
      log_here(*callback, level, text);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("isocost log");
    }
  };
}

}  // namespace isocost::python
