// Mistakes that clang's thread-safety analysis must refuse, one for each #ifdef. Without any of
// them defined, this file is their twin that compiles. See check.sh.
#include "base/mutex.h"

namespace {

class Counter {
 public:
  void add() ISOCOST_EXCLUDES(mutex_) {
#ifndef UNLOCKED_WRITE
    const isocost::MutexLock lock(mutex_);
#endif
    count_ += 1;
    changed_.notify_all();
  }

  int wait_for_one(const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_) {
    const isocost::MutexLock lock(mutex_);
#ifdef UNLOCKED_CONDITION
    changed_.wait(mutex_, stop, [this] { return count_ > 0; });
#else
    changed_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return count_ > 0; });
#endif
#ifdef LOCKED_TWICE
    add();
#endif
    return count_;
  }

  void wait_unlocked(const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_) {
#ifndef WAIT_WITHOUT_THE_LOCK
    const isocost::MutexLock lock(mutex_);
#endif
    changed_.wait(mutex_, stop, [] { return true; });
  }

  void reset() ISOCOST_EXCLUDES(mutex_) {
#ifndef HELPER_WITHOUT_THE_LOCK
    const isocost::MutexLock lock(mutex_);
#endif
    clear();
  }

 private:
  void clear() ISOCOST_REQUIRES(mutex_) { count_ = 0; }

  isocost::Mutex mutex_;
  isocost::ConditionVariable changed_;
  int count_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

}  // namespace

int main() {
  Counter counter;
  counter.add();
  counter.wait_unlocked({});
  counter.reset();
  return counter.wait_for_one(std::stop_source().get_token());
}
