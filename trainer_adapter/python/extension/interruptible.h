#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <future>
#include <stop_token>
#include <thread>
#include <utility>

#include "trainer_adapter/python/extension/waiting.h"

namespace isocost::python {

/// Returns what `work(stop)` returns. It runs on a thread of its own, without the GIL, so that
/// Python's signal handlers are called meanwhile; where they raise, `stop` is requested, and what
/// they raise is thrown when the work has ended. Otherwise `stop` is never requested, so that the
/// value may keep it.
template <typename Work>
auto interruptible(Work work) {
  using Value = decltype(work(std::stop_token()));
  std::promise<Value> promise;
  std::future<Value> result = promise.get_future();
  std::stop_source interrupt;  // the thread's own is asked for at its end
  std::jthread thread([&] {
    try {
      promise.set_value(work(interrupt.get_token()));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  });
  try {
    wait_interruptibly([&](std::chrono::milliseconds interval) {
      return result.wait_for(interval) == std::future_status::ready;
    });
  } catch (...) {
    interrupt.request_stop();
    const pybind11::gil_scoped_release released;  // the work may log
    thread.join();
    throw;
  }
  return result.get();
}

}  // namespace isocost::python
