#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <optional>
#include <utility>

#include "base/executor/executor.h"
#include "base/mutex.h"
#include "base/thread_name.h"

namespace isocost {
namespace {

// Raises oneTBB's limit. It holds a process to the least of all limits in force, so there is one
// for all executors: their sum.
class Parallelism {
 public:
  static void add(std::size_t workers) { instance().change(workers, 0); }
  static void take_away(std::size_t workers) { instance().change(0, workers); }

 private:
  using Control = oneapi::tbb::global_control;

  static Parallelism& instance() {
    static Parallelism parallelism;
    return parallelism;
  }

  void change(std::size_t more, std::size_t less) {
    const MutexLock lock(mutex_);
    workers_ += more;
    workers_ -= less;
    limit_.reset();
    // oneTBB counts the calling thread among the cores and starts one worker fewer, but no calling
    // thread works here.
    if (workers_ > 0) limit_.emplace(Control::max_allowed_parallelism, workers_ + 1);
  }

  Mutex mutex_;
  std::size_t workers_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::optional<Control> limit_ ISOCOST_GUARDED_BY(mutex_);
};

// Names a worker from within a task, since oneTBB makes its threads itself, without a notification.
void name_worker() {
  thread_local bool named = false;
  if (!std::exchange(named, true)) name_thread("isocost-worker");
}

// `enqueue` starts a task without a thread waiting for it, in order of submission as far as the
// arena allows; the count of open tasks lets the destructor wait for the last one.
class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(std::size_t workers)
      : workers_(workers), arena_(static_cast<int>(workers), /*reserved_for_masters=*/0) {
    Parallelism::add(workers);
  }

  ~TbbExecutor() override {
    {
      const MutexLock lock(mutex_);
      idle_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return open_ == 0; });
    }
    Parallelism::take_away(workers_);
  }

  void submit(std::function<void()> task) override {
    {
      const MutexLock lock(mutex_);
      ++open_;
    }
    arena_.enqueue([this, task = std::move(task)] {
      name_worker();
      task();
      const MutexLock lock(mutex_);
      if (--open_ == 0) idle_.notify_all();
    });
  }

  std::size_t workers() const override { return workers_; }

 private:
  std::size_t workers_;
  Mutex mutex_;
  ConditionVariable idle_;
  std::size_t open_ ISOCOST_GUARDED_BY(mutex_) = 0;
  oneapi::tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(std::size_t workers) {
  if (workers == 0) workers = static_cast<std::size_t>(oneapi::tbb::info::default_concurrency());
  return std::make_unique<TbbExecutor>(workers);
}

}  // namespace isocost
