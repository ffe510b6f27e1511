#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace isocost {

/// Runs tasks on a fixed number of worker threads. Tasks must not throw and must not wait for other
/// tasks. The destructor runs all submitted tasks, then joins every thread. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void submit(std::function<void()> task) = 0;
  virtual std::size_t workers() const = 0;
};

/// Returns an executor with oneTBB workers, or with plain threads if built with
/// ISOCOST_EXECUTOR=thread (the `tsan` preset, because Debian's oneTBB is not instrumented).
/// `workers` = 0 takes one per core.
std::unique_ptr<Executor> make_executor(std::size_t workers);

/// Returns an executor with threads of its own, for tasks that wait for files rather than compute.
/// `name` is a literal: see name_thread.
std::unique_ptr<Executor> make_thread_executor(std::size_t threads, const char* name);

}  // namespace isocost
