#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <utility>

namespace isocost::python {

/// Longest time that Python's signals (Ctrl-C) may go unhandled.
inline constexpr std::chrono::milliseconds kSignalInterval{50};

/// Calls `wait(interval)` without the GIL until it returns true, and Python's signal handlers and
/// `meanwhile` after each call. Throws what they raise.
template <typename Wait, typename Meanwhile>
void wait_interruptibly(Wait&& wait, Meanwhile&& meanwhile) {
  for (;;) {
    bool done = false;
    {
      const pybind11::gil_scoped_release released;
      done = wait(kSignalInterval);
    }
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    meanwhile();
    if (done) return;
  }
}

template <typename Wait>
void wait_interruptibly(Wait&& wait) {
  wait_interruptibly(std::forward<Wait>(wait), [] {});
}

}  // namespace isocost::python
