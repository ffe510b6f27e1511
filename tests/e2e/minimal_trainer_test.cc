// Runs examples/minimal_trainer as users do: as a process that connects to a real node.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

using testing::HasSubstr;

struct Ended {
  int status = -1;
  std::string output;  ///< Standard output and error.
};

Ended run_trainer(const std::string& arguments) {
  // `timeout` ends a trainer that hangs, which closes the pipe.
  const std::string command =
      "timeout -k 5 90 '" ISOCOST_MINIMAL_TRAINER "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Ended ended;
  std::array<char, 4096> chunk{};
  while (const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    ended.output.append(chunk.data(), got);
  }
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

/// Returns the losses of lines "step N loss X". Fails the test if N does not count up from 1.
std::vector<double> losses(const std::string& output) {
  std::vector<double> found;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    unsigned step = 0;
    double loss = 0;
    if (std::sscanf(line.c_str(), "step %u loss %lf", &step, &loss) != 2) continue;
    EXPECT_EQ(step, found.size() + 1) << line;
    found.push_back(loss);
  }
  return found;
}

class MinimalTrainer : public LoopTest {
 protected:
  /// Runs one node and one trainer until the trainer has ended. Then stops the node, unless it ends
  /// with the trainer's last epoch.
  Ended train(const NodeOptions& options, const std::string& arguments) {
    auto node = Node::create(options, {}, {});
    EXPECT_TRUE(node.has_value()) << node.error().message();
    if (!node) return {};
    NodeThread serving(*std::move(node));
    Ended ended = run_trainer("--endpoint " + serving.endpoint() + " " + arguments);
    if (ended.status != 0 || arguments.find("--steps") != std::string::npos) {
      EXPECT_TRUE(serving.stop());
    }
    summary_ = serving.wait(std::chrono::minutes(1));
    EXPECT_TRUE(summary_.has_value()) << "the node still serves";
    return ended;
  }

  std::optional<Result<NodeSummary>> summary_;
};

TEST_F(MinimalTrainer, LearnsFromEverySampleOfEveryEpoch) {
  make_dataset(40);
  NodeOptions options = this->options(1);
  options.plan.epochs = 5;
  const Ended ended = train(options, "--lr 0.003");
  ASSERT_EQ(ended.status, 0) << ended.output;
  ASSERT_TRUE(summary_->has_value()) << summary_->error().message();
  EXPECT_EQ((*summary_)->delivered, 200U);
  EXPECT_GT((*summary_)->measurements, 0);  // the node learned from its reports
  const std::vector<double> seen = losses(ended.output);
  ASSERT_EQ(seen.size(), 15U) << ended.output;  // 16, 16 and a tail of 8, five times
  EXPECT_NEAR(seen.front(), 5.56, 0.3);         // guessing one of 260 tokens
  EXPECT_LT(seen.back(), seen.front() - 1);
}

TEST_F(MinimalTrainer, StopsAfterTheStepsAskedFor) {
  make_dataset(40);
  const Ended ended = train(options(1), "--steps 2");
  ASSERT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(losses(ended.output).size(), 2U) << ended.output;
}

TEST_F(MinimalTrainer, FailsIfTheNodeExpectsMoreRanks) {
  make_dataset(40);
  const Ended ended = train(options(2), "");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.output, HasSubstr("minimal_trainer: "));
  EXPECT_THAT(ended.output, HasSubstr("the node serves 2"));
}

TEST(MinimalTrainerProgram, NamesTheLibtorchThatItLoaded) {
  const Ended ended = run_trainer("--version");
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "libtorch " ISOCOST_TORCH_VERSION "\n");
}

TEST(MinimalTrainerProgram, HelpShowsAnExample) {
  const Ended ended = run_trainer("--help");
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("minimal_trainer --endpoint tcp://127.0.0.1:5800"));
}

}  // namespace
}  // namespace isocost
