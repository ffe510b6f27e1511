#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace isocost {

/// Threads that read and write a disk, so that neither callers nor a network's thread wait for it.
/// Who adds tasks bounds their number. Thread-safe.
class DiskThreads {
 public:
  explicit DiskThreads(std::size_t count);
  ~DiskThreads();  ///< Runs the tasks that are left, and joins the threads.
  DiskThreads(const DiskThreads&) = delete;
  DiskThreads& operator=(const DiskThreads&) = delete;

  /// Has a task run, which must not throw. Does not block.
  void add(std::function<void()> task) ISOCOST_EXCLUDES(mutex_);

 private:
  void work(const std::stop_token& ending) ISOCOST_EXCLUDES(mutex_);

  Mutex mutex_;
  ConditionVariable added_;
  std::deque<std::function<void()>> tasks_ ISOCOST_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace isocost
