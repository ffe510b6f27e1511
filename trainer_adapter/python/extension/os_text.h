#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>

namespace isocost::python {

/// Text from the operating system, such as a file's name, which need not be UTF-8: Python has it as
/// str, with surrogates in place of bytes that are no UTF-8 (os.fsdecode).
struct OsText {
  std::string bytes;
};

/// Returns text for people, with \xNN in place of bytes that are no UTF-8. Call it with the GIL.
inline pybind11::str readable(std::string_view text) {
  PyObject* made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (made == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(made);
}

}  // namespace isocost::python

namespace pybind11::detail {

template <>
struct type_caster<isocost::python::OsText> {
  PYBIND11_TYPE_CASTER(isocost::python::OsText, const_name("str"));

  bool load(handle from, bool /*convert*/) {
    if (!PyUnicode_Check(from.ptr())) return false;
    const auto encoded = reinterpret_steal<object>(PyUnicode_EncodeFSDefault(from.ptr()));
    if (!encoded) {
      PyErr_Clear();
      return false;
    }
    value.bytes.assign(PyBytes_AS_STRING(encoded.ptr()),
                       static_cast<std::size_t>(PyBytes_GET_SIZE(encoded.ptr())));
    return true;
  }

  static handle cast(const isocost::python::OsText& from, return_value_policy /*policy*/,
                     handle /*parent*/) {
    return PyUnicode_DecodeFSDefaultAndSize(from.bytes.data(),
                                            static_cast<Py_ssize_t>(from.bytes.size()));
  }
};

}  // namespace pybind11::detail
