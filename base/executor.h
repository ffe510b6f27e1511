#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace isocost {

/// Runs tasks on a fixed number of worker threads. Internally synchronised. Tasks must not throw
/// and must not wait for other tasks. The destructor runs what was submitted, then joins every
/// thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void submit(std::function<void()> task) = 0;
  virtual std::size_t workers() const = 0;
};

/// oneTBB workers; with ISOCOST_EXECUTOR=thread (the `tsan` preset, since Debian's oneTBB is not
/// instrumented) plain threads. `workers` = 0 takes one per core.
std::unique_ptr<Executor> make_executor(std::size_t workers);

}  // namespace isocost
