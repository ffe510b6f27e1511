#include "loader/node/node_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The state that the test shares with the node, which the NodeThread owns.
struct Script {
  Mutex mutex;
  ConditionVariable changed;
  // `run` returns it as soon as it is there
  std::optional<Result<NodeSummary>> outcome ISOCOST_GUARDED_BY(mutex);
  bool running ISOCOST_GUARDED_BY(mutex) = false;
  bool ended ISOCOST_GUARDED_BY(mutex) = false;
  // of the last wait_until_left
  std::optional<milliseconds> grace ISOCOST_GUARDED_BY(mutex);
  bool stopped_before_grace ISOCOST_GUARDED_BY(mutex) = false;

  void end(Result<NodeSummary> with) {
    const MutexLock lock(mutex);
    outcome = std::move(with);
    changed.notify_all();
  }
  void await_running() {
    const MutexLock lock(mutex);
    ASSERT_TRUE(
        changed.wait_for(mutex, seconds(10), [this]() ISOCOST_REQUIRES(mutex) { return running; }));
  }
};

class ScriptedNode final : public Node {
 public:
  explicit ScriptedNode(Script& script) : script_(script) {}

  const std::string& endpoint() const override { return endpoint_; }
  const Dataset& dataset() const override { throw std::logic_error("it has none"); }
  Result<NodeSummary> run(const std::stop_token& stop, const std::stop_token& /*drain*/) override {
    const MutexLock lock(script_.mutex);
    script_.running = true;
    script_.changed.notify_all();
    script_.changed.wait(script_.mutex, stop, [this]() ISOCOST_REQUIRES(script_.mutex) {
      return script_.outcome.has_value();
    });
    script_.ended = true;
    if (script_.outcome) return *script_.outcome;
    return Error(ErrorCode::kCancelled, "the node was asked to stop");
  }
  bool wait_until_left(milliseconds limit) override {
    const MutexLock lock(script_.mutex);
    script_.grace = limit;
    script_.stopped_before_grace = script_.ended;
    return true;
  }
  NodeSummary summary() override { return {.delivered = 7}; }
  NodeMetrics metrics() override { return {}; }
  std::string timeline_svg() const override { return {}; }
  std::string metrics_url() const override { return {}; }

 private:
  Script& script_;
  const std::string endpoint_ = "tcp://127.0.0.1:5800";
};

class NodeThreadTest : public testing::Test {
 protected:
  NodeThreadTest() { thread_.emplace(std::make_unique<ScriptedNode>(script_)); }

  Script script_;
  std::optional<NodeThread> thread_;
};

TEST_F(NodeThreadTest, ServesFromItsConstructionOn) {
  script_.await_running();
  EXPECT_EQ(thread_->endpoint(), "tcp://127.0.0.1:5800");
  EXPECT_FALSE(thread_->wait({}).has_value());
}

TEST_F(NodeThreadTest, ToBeStoppedIsNoFailure) {
  const auto summary = thread_->stop();
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->delivered, 7U);  // the node's counters
  const auto outcome = thread_->wait({});
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->has_value());
  EXPECT_EQ(outcome->error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(thread_->stop().has_value()) << "the second call finds it stopped";
}

TEST_F(NodeThreadTest, RanksMayLeaveBeforeTheNodeIsStopped) {
  script_.await_running();
  EXPECT_TRUE(thread_->stop(milliseconds(1500)).has_value());
  const MutexLock lock(script_.mutex);
  EXPECT_EQ(script_.grace, milliseconds(1500));
  EXPECT_FALSE(script_.stopped_before_grace);
}

TEST_F(NodeThreadTest, AnEndOfItsOwnIsReturned) {
  script_.end(NodeSummary{.delivered = 3});
  const auto outcome = thread_->wait(seconds(10));
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->has_value());
  EXPECT_EQ((*outcome)->delivered, 3U);
  EXPECT_EQ(thread_->stop(seconds(10)).value().delivered, 3U);
  const MutexLock lock(script_.mutex);
  EXPECT_FALSE(script_.grace.has_value()) << "there is no grace period after the end";
}

TEST_F(NodeThreadTest, AFailureIsReturned) {
  script_.end(Error(ErrorCode::kCorrupt, "bad sample"));
  const auto outcome = thread_->wait(seconds(10));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->error().code(), ErrorCode::kCorrupt);
  const auto stopped = thread_->stop();
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().message(), "bad sample");
}

TEST_F(NodeThreadTest, IsStoppedFromTwoThreadsAtOnce) {
  std::atomic<int> stopped = 0;
  {
    const auto stop = [&] {
      if (thread_->stop()) ++stopped;
    };
    const std::jthread first(stop);
    const std::jthread second(stop);
  }
  EXPECT_EQ(stopped, 2);
}

TEST_F(NodeThreadTest, TheDestructorStopsTheNode) {
  script_.await_running();
  thread_.reset();
  const MutexLock lock(script_.mutex);
  EXPECT_TRUE(script_.ended);
}

}  // namespace
}  // namespace isocost
