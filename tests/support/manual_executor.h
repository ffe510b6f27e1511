#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "base/executor/executor.h"
#include "base/mutex.h"

namespace isocost {

/// Stores tasks until a test runs them, on the thread of the test and in the order that it chooses.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(std::size_t workers = 1) : workers_(workers) {}
  ManualExecutor(const ManualExecutor&) = delete;
  ManualExecutor& operator=(const ManualExecutor&) = delete;
  ~ManualExecutor() override {
    while (waiting() > 0) run_first();
  }

  void submit(std::function<void()> task) override {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    submitted_.notify_all();
  }
  std::size_t workers() const override { return workers_; }

  std::size_t waiting() const {
    const MutexLock lock(mutex_);
    return tasks_.size();
  }
  /// Blocks until this number of tasks wait. Fails the test at the deadline.
  void wait_for(std::size_t count) {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(
        submitted_.wait_for(mutex_, std::chrono::seconds(60),
                            [&]() ISOCOST_REQUIRES(mutex_) { return tasks_.size() >= count; }));
  }
  void run_first() { take(true)(); }
  void run_last() { take(false)(); }

 private:
  std::function<void()> take(bool first) {
    const MutexLock lock(mutex_);
    auto task = std::move(first ? tasks_.front() : tasks_.back());
    if (first) {
      tasks_.pop_front();
    } else {
      tasks_.pop_back();
    }
    return task;
  }

  const std::size_t workers_;
  mutable Mutex mutex_;
  ConditionVariable submitted_;
  std::deque<std::function<void()>> tasks_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
