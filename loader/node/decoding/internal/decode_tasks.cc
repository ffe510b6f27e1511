#include "loader/node/decoding/internal/decode_tasks.h"

#include <utility>

namespace isocost {

DecodeTasks::~DecodeTasks() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return left_ == 0; });
}

DecodeTasks::TaskHandle DecodeTasks::submit(Turn turn, std::function<void()> run) {
  Waiting waiting{std::make_shared<Task>(), std::move(run)};
  TaskHandle task = waiting.task;
  {
    const MutexLock lock(mutex_);
    ++left_;
    if (turn == Turn::kFirst) first_.push_back(std::exchange(waiting, {}));
  }
  executor_.submit([this, waiting = std::move(waiting)]() mutable {
    run_first_ones();
    if (waiting.task) this->run(std::move(waiting));
    end_place();
  });
  return task;
}

// Any worker that takes up a task runs them, since their own place in the executor's queue is
// behind all that was submitted before.
void DecodeTasks::run_first_ones() {
  while (auto next = take_first()) run(*std::move(next));
}

std::optional<DecodeTasks::Waiting> DecodeTasks::take_first() {
  const MutexLock lock(mutex_);
  if (first_.empty()) return std::nullopt;
  Waiting next = std::move(first_.front());
  first_.pop_front();
  return next;
}

void DecodeTasks::run(Waiting next) {
  std::exchange(next.run, nullptr)();
  end(*next.task);
}

void DecodeTasks::end(Task& task) {
  const MutexLock lock(mutex_);
  task.ended_ = true;
  if (task.awaited_ && --awaited_ == 0) changed_.notify_all();
}

// Wakes the waiting thread only where its wait may be over, since a step has thousands of tasks.
void DecodeTasks::end_place() {
  const MutexLock lock(mutex_);
  if (--left_ < workers_) changed_.notify_all();
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
