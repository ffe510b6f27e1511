#include "trainer_adapter/python/extension/errors.h"

#include <string>

#include "trainer_adapter/python/extension/os_text.h"

namespace isocost::python {

namespace py = pybind11;

void raise(const Error& error) {
  const py::object make = py::module_::import("isocost.errors").attr("from_code");
  const py::object exception =
      make(std::string(error_code_name(error.code())), readable(error.message()));
  PyErr_SetObject(py::type::of(exception).ptr(), exception.ptr());
  throw py::error_already_set();
}

}  // namespace isocost::python
