#include "base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>

namespace isocost {
namespace {

constexpr std::chrono::seconds kLong{60};  // longer than any test waits

// A flag that threads wait for.
class Flag {
 public:
  void set() {
    const MutexLock lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void wait() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return set_; });
  }
  bool wait(const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    return changed_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return set_; });
  }
  bool wait_for(std::chrono::nanoseconds limit) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return set_; });
  }
  bool wait_for(std::chrono::nanoseconds limit, const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, stop, limit,
                             [this]() ISOCOST_REQUIRES(mutex_) { return set_; });
  }
  bool wait_until(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, stop, deadline,
                               [this]() ISOCOST_REQUIRES(mutex_) { return set_; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool set_ ISOCOST_GUARDED_BY(mutex_) = false;
};

TEST(ConditionVariable, EveryWaitEndsWhenTheConditionHolds) {
  Flag flag;
  {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    const std::jthread forever([&] { flag.wait(); });
    const std::jthread stoppable([&] { EXPECT_TRUE(flag.wait(std::stop_source().get_token())); });
    const std::jthread limited([&] { EXPECT_TRUE(flag.wait_for(kLong)); });
    const std::jthread both([&] { EXPECT_TRUE(flag.wait_for(kLong, {})); });
    const std::jthread until([&] { EXPECT_TRUE(flag.wait_until(deadline, {})); });
    flag.set();
  }
  EXPECT_TRUE(flag.wait_for(std::chrono::nanoseconds(0)));
}

TEST(ConditionVariable, AStopEndsAWait) {
  Flag flag;
  std::stop_source stop;
  const std::jthread stoppable([&] { EXPECT_FALSE(flag.wait(stop.get_token())); });
  const std::jthread limited([&] { EXPECT_FALSE(flag.wait_for(kLong, stop.get_token())); });
  stop.request_stop();
}

TEST(ConditionVariable, ALimitEndsAWait) {
  Flag flag;
  EXPECT_FALSE(flag.wait_for(std::chrono::nanoseconds(1)));
  EXPECT_FALSE(flag.wait_for(std::chrono::nanoseconds(1), {}));
  EXPECT_FALSE(flag.wait_until(std::chrono::steady_clock::now(), {}));
}

}  // namespace
}  // namespace isocost
