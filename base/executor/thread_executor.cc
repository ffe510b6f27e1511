#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/executor/executor.h"
#include "base/mutex.h"
#include "base/thread_name.h"

namespace isocost {
namespace {

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(std::size_t workers, const char* name) {
    threads_.reserve(workers);
    for (std::size_t i = 0; i < workers; ++i) {
      threads_.emplace_back([this, name] {
        name_thread(name);
        run();
      });
    }
  }

  ~ThreadExecutor() override {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
    }
    ready_.notify_all();
  }

  void submit(std::function<void()> task) override {
    {
      const MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    ready_.notify_one();
  }

  std::size_t workers() const override { return threads_.size(); }

 private:
  void run() {
    for (;;) {
      std::function<void()> task;
      {
        const MutexLock lock(mutex_);
        ready_.wait(mutex_,
                    [this]() ISOCOST_REQUIRES(mutex_) { return closing_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  Mutex mutex_;
  ConditionVariable ready_;
  std::deque<std::function<void()>> tasks_ ISOCOST_GUARDED_BY(mutex_);
  bool closing_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread>
      threads_;  // declared last, so it is joined before the queue is destroyed
};

}  // namespace

std::unique_ptr<Executor> make_thread_executor(std::size_t threads, const char* name) {
  return std::make_unique<ThreadExecutor>(threads, name);
}

}  // namespace isocost
