#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/executor.h"

namespace isocost {
namespace {

// `enqueue` starts a task without a thread waiting for it, in order of submission as far as the
// arena allows; the count of open tasks lets the destructor wait for the last one.
class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(std::size_t workers)
      : workers_(workers),
        // oneTBB counts the calling thread among the cores and starts one worker fewer; nobody
        // calls in here.
        parallelism_(oneapi::tbb::global_control::max_allowed_parallelism, workers + 1),
        arena_(static_cast<int>(workers), /*reserved_for_masters=*/0) {}

  ~TbbExecutor() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return open_ == 0; });
  }

  void submit(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    arena_.enqueue([this, task = std::move(task)] {
      task();
      const std::lock_guard lock(mutex_);
      if (--open_ == 0) idle_.notify_all();
    });
  }

  std::size_t workers() const override { return workers_; }

 private:
  std::size_t workers_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::size_t open_ = 0;
  oneapi::tbb::global_control parallelism_;
  oneapi::tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(std::size_t workers) {
  if (workers == 0) workers = static_cast<std::size_t>(oneapi::tbb::info::default_concurrency());
  return std::make_unique<TbbExecutor>(workers);
}

}  // namespace isocost
