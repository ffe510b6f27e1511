#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/executor/executor.h"
#include "base/mutex.h"

namespace isocost {

/// Runs decoding tasks on the workers, and knows which have ended and whether a worker is idle. The
/// destructor blocks until all have ended. Thread-safe, but only one thread at a time may wait.
class DecodeTasks {
 public:
  explicit DecodeTasks(Executor& executor) : executor_(executor), workers_(executor.workers()) {}
  ~DecodeTasks();
  DecodeTasks(const DecodeTasks&) = delete;
  DecodeTasks& operator=(const DecodeTasks&) = delete;

  /// A task that was submitted. Its members are guarded by the mutex of its DecodeTasks.
  class Task {
    friend class DecodeTasks;
    bool ended_ = false;
    bool awaited_ = false;
  };
  using TaskHandle = std::shared_ptr<Task>;

  /// When a worker takes up a task.
  enum class Turn {
    kFirst,    ///< Before all that wait in order: a trainer may be waiting for it now.
    kInOrder,  ///< After those that were submitted before.
  };

  /// Submits a task. `run` must neither throw nor wait for another task. It is destroyed before the
  /// task ends.
  TaskHandle submit(Turn turn, std::function<void()> run) ISOCOST_EXCLUDES(mutex_);

  /// Blocks until all of `tasks` have ended; with `or_idle`, at most until a worker is idle,
  /// because fewer tasks than workers are left. Returns whether all of `tasks` have ended.
  bool wait(std::span<const TaskHandle> tasks, bool or_idle) ISOCOST_EXCLUDES(mutex_);

 private:
  struct Waiting {
    TaskHandle task;
    std::function<void()> run;
  };

  void run_first_ones() ISOCOST_EXCLUDES(mutex_);
  std::optional<Waiting> take_first() ISOCOST_EXCLUDES(mutex_);
  void run(Waiting next) ISOCOST_EXCLUDES(mutex_);
  void end(Task& task) ISOCOST_EXCLUDES(mutex_);
  void end_place() ISOCOST_EXCLUDES(mutex_);

  Executor& executor_;
  const std::size_t workers_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Waiting> first_ ISOCOST_GUARDED_BY(mutex_);
  std::size_t left_ ISOCOST_GUARDED_BY(mutex_) = 0;     // places in the executor, one a task
  std::size_t awaited_ ISOCOST_GUARDED_BY(mutex_) = 0;  // tasks that `wait` waits for
};

}  // namespace isocost
