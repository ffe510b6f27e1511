// A trainer that hangs while its socket's thread still says that it is alive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class Stall : public LoopTest {};

TEST_F(Stall, ATrainerThatHangsIsNamedToTheNodeAndToTheRanksThatWait) {
  make_dataset(64);
  NodeOptions watched = options(2);
  watched.service.stall_timeout = std::chrono::milliseconds(500);
  LogLines log;
  LogLines told;
  node_log = log.sink();
  trainer_log = told.sink();
  Node* serving = nullptr;
  double stalled_s = 0;
  bool hung = false;
  before_serving = [&](Node& node) { serving = &node; };
  const auto outcome = try_run(watched, [&](std::int64_t rank, Client&, const Microbatch&) {
    if (rank != 1 || std::exchange(hung, true)) return;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (stalled_s == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      stalled_s = serving->metrics().stalled_s;
    }
  });
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message();
  EXPECT_GE(stalled_s, 0.5);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("rank 1 has not acknowledged epoch 0, step 0")));
  EXPECT_THAT(told.lines(), Contains(HasSubstr("rank 1 has not acknowledged epoch 0, step 0")));
}

// A client that prepares ahead and forgets to say where its loop is: microbatches flow, but none
// counts as trained on.
TEST_F(Stall, AClientThatNeverAcknowledgesIsNamed) {
  make_dataset(64);
  NodeOptions watched = options(1);
  watched.service.stall_timeout = std::chrono::milliseconds(500);
  LogLines log;
  NodeThread serving(Node::create(watched, {}, log.sink()).value());
  ClientOptions forgetful;
  forgetful.endpoint = serving.endpoint();
  forgetful.prepares_ahead = true;
  const auto client = Client::connect(forgetful).value();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  double stalled_s = 0;
  while (stalled_s == 0 && std::chrono::steady_clock::now() < deadline) {
    if (client->wait(std::chrono::milliseconds(20))) static_cast<void>(client->next().has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stalled_s = serving.node().metrics().stalled_s;
  }
  EXPECT_GE(stalled_s, 0.5);
  EXPECT_THAT(log.lines(),
              Contains(AllOf(HasSubstr("rank 0 has not acknowledged epoch 0, step 0"),
                             HasSubstr("acknowledges them by use() and acknowledge()"))));
}

}  // namespace
}  // namespace isocost
