#include "loader/node/decoding/internal/decode_tasks.h"

#include <utility>

namespace isocost {

DecodeTasks::~DecodeTasks() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return left_ == 0; });
}

DecodeTasks::TaskHandle DecodeTasks::submit(std::function<void()> run) {
  auto task = std::make_shared<Task>();
  {
    const MutexLock lock(mutex_);
    ++left_;
  }
  executor_.submit([this, task, run = std::move(run)]() mutable {
    std::exchange(run, nullptr)();
    end(*task);
  });
  return task;
}

// Ends a task. Wakes the waiting thread only where its wait may be over, since a step has thousands
// of tasks.
void DecodeTasks::end(Task& task) {
  const MutexLock lock(mutex_);
  task.ended_ = true;
  --left_;
  if (task.awaited_) --awaited_;
  if (awaited_ == 0 || left_ < workers_) changed_.notify_all();
}

bool DecodeTasks::wait(std::span<const TaskHandle> tasks, bool or_idle) {
  const MutexLock lock(mutex_);
  for (const TaskHandle& task : tasks) {
    if (task->ended_ || task->awaited_) continue;
    task->awaited_ = true;
    ++awaited_;
  }
  changed_.wait(mutex_, [&]() ISOCOST_REQUIRES(mutex_) {
    return awaited_ == 0 || (or_idle && left_ < workers_);
  });
  return awaited_ == 0;
}

}  // namespace isocost
