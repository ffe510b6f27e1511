#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace isocost {

/// Watches libtorch's allocators, of the CPU and of CUDA devices, on this thread and on those that
/// run its backward passes, for as long as it lives.
class PeakMemory {
 public:
  PeakMemory();

  /// The most that was allocated at once since it was made, above what was allocated before.
  std::int64_t bytes() const;

 private:
  class Watcher;
  std::shared_ptr<Watcher> watcher_;
  c10::DebugInfoGuard guard_;
};

}  // namespace isocost
