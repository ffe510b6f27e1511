#include "loader/dataset/stores/cache/internal/disk_threads.h"

#include <signal.h>

#include <utility>

#include "base/thread_name.h"

namespace isocost {

DiskThreads::DiskThreads(std::size_t count) {
  threads_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads_.emplace_back([this](const std::stop_token& ending) { work(ending); });
  }
}

DiskThreads::~DiskThreads() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void DiskThreads::add(std::function<void()> task) {
  const MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  added_.notify_one();
}

void DiskThreads::work(const std::stop_token& ending) {
  name_thread("isocost-cache");
  // A write beyond the limit of a file's size then fails, instead of ending the process.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (;;) {
    std::function<void()> task;
    {
      const MutexLock lock(mutex_);
      added_.wait(mutex_, ending, [this]() ISOCOST_REQUIRES(mutex_) { return !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace isocost
