#include "trainer_adapter/torch/internal/peak_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>

#include "base/mutex.h"

namespace isocost {
namespace {

// Totals are signed in torch 1.13 and unsigned in later ones.
template <typename Method>
struct TotalOf;
template <typename Total>
struct TotalOf<void (c10::MemoryReportingInfoBase::*)(void*, std::int64_t, Total, Total,
                                                      c10::Device)> {
  using Type = Total;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

}  // namespace

// Receives each allocation and release from libtorch, in the place of its own profiler.
class PeakMemory::Watcher final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, std::int64_t alloc_size, Total /*total_allocated*/,
                         Total /*total_reserved*/, c10::Device /*device*/) override {
    const MutexLock lock(mutex_);
    now_ += alloc_size;  // negative for a release
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t peak() const {
    const MutexLock lock(mutex_);
    return peak_;
  }

 private:
  mutable Mutex mutex_;
  std::int64_t now_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::int64_t peak_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

PeakMemory::PeakMemory()
    : watcher_(std::make_shared<Watcher>()), guard_(c10::DebugInfoKind::PROFILER_STATE, watcher_) {}

std::int64_t PeakMemory::bytes() const { return watcher_->peak(); }

}  // namespace isocost
