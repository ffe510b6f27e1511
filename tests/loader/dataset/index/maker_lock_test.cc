#include "loader/dataset/index/maker_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

using testing::StartsWith;

class MakerLocks : public testing::Test {
 protected:
  MakerLockRequest request() {
    return {file_, "the indexes of data", [this](LogLevel level, std::string_view text) {
              EXPECT_EQ(level, LogLevel::kWarning);
              logged_.emplace_back(text);
            }};
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  fs::path file_ = scratch_.path() / "index.lock";
  std::vector<std::string> logged_;
};

TEST_F(MakerLocks, OneHoldsItAndTheOthersHearWhoAndHowFar) {
  auto held = request().poll().value();
  ASSERT_NE(held, nullptr);
  held->tell("3 of 10 shards");
  held->tell("4 of 10 shards");  // Too soon after the other to be written.
  MakerLockRequest waiting = request();
  EXPECT_EQ(waiting.poll().value(), nullptr);
  EXPECT_EQ(waiting.poll().value(), nullptr);
  EXPECT_THAT(
      logged_,
      ElementsAre(testing::AllOf(
          StartsWith("the indexes of data: process " + std::to_string(getpid()) + " on host "),
          HasSubstr(" (3 of 10 shards) makes them; waiting until it has ended"))));
  held.reset();
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_NE(waiting.poll().value(), nullptr);
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(MakerLocks, AWaitEndsWithTheOthersWorkOrByAStop) {
  auto held = request().poll().value();
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = request().wait(stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
  std::unique_ptr<MakerLock> taken;
  std::jthread other([&] { taken = request().wait({}).value(); });
  held.reset();
  other.join();
  EXPECT_NE(taken, nullptr);
}

TEST_F(MakerLocks, AKilledProcessIsTakenOver) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t maker = fork();
  if (maker == 0) {
    const auto held = request().poll();
    const char said = held && *held != nullptr ? 'y' : 'n';
    if (write(pipe_ends[1], &said, 1) == 1) pause();
    _exit(1);
  }
  char said = 'n';
  ASSERT_EQ(read(pipe_ends[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_EQ(request().poll().value(), nullptr);
  ASSERT_EQ(logged_.size(), 1U);
  logged_.clear();
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  EXPECT_TRUE(fs::exists(file_));
  EXPECT_NE(request().poll().value(), nullptr);
  EXPECT_THAT(logged_, ElementsAre(testing::AllOf(
                           HasSubstr("process " + std::to_string(maker) + " on host "),
                           HasSubstr("ended before it was done; this process goes on"))));
  EXPECT_THAT(fs::exists(file_), false);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(MakerLocks, ADirectoryThatIsNotThereIsAnError) {
  const auto made = MakerLockRequest("/nowhere/index.lock", "the indexes", {}).poll();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kIo);
  EXPECT_THAT(made.error().message(), StartsWith("/nowhere/index.lock: "));
}

}  // namespace
}  // namespace isocost
