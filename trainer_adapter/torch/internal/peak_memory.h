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

  /// Returns the most bytes allocated at once since construction, above those allocated before.
  std::int64_t bytes() const;

 private:
  class Watcher;
  std::shared_ptr<Watcher> watcher_;
  c10::DebugInfoGuard guard_;
};

}  // namespace isocost
