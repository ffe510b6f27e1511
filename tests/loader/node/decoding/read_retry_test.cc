#include "loader/node/decoding/read_retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::chrono::milliseconds kShort{1};

Error refused() { return {ErrorCode::kIo, "a.tar: cannot read: Input/output error"}; }

TEST(ReadRetry, RepeatsReadsThatTheMachineRefuses) {
  LogLines log;
  ReadRetry retry(
      {.timeout = std::chrono::minutes(1), .first_interval = kShort, .announce = log.sink()});
  int reads = 0;
  const auto read = retry.run({}, [&]() -> Result<int> {
    if (++reads < 4) return refused();
    return 7;
  });
  EXPECT_EQ(read.value(), 7);
  EXPECT_EQ(reads, 4);
  EXPECT_THAT(log.lines(), IsEmpty()) << "a short pause is nobody's concern";
}

TEST(ReadRetry, ReturnsOtherErrorsAtOnce) {
  ReadRetry retry({.timeout = std::chrono::minutes(1)});
  for (const ErrorCode code : {ErrorCode::kCorrupt, ErrorCode::kUnsupported,
                               ErrorCode::kResourceExhausted, ErrorCode::kOutOfMemory}) {
    int reads = 0;
    const auto read = retry.run({}, [&]() -> Result<int> {
      ++reads;
      return Error(code, "of the data");
    });
    EXPECT_EQ(read.error().code(), code);
    EXPECT_EQ(reads, 1);
  }
}

TEST(ReadRetry, RepeatsReadsThatWereCancelledThoughNobodyStopsThem) {
  ReadRetry retry({.timeout = std::chrono::minutes(1), .first_interval = kShort});
  std::stop_source stop;
  int reads = 0;
  const auto cancelled = [&]() -> Result<int> {
    if (++reads == 3) stop.request_stop();
    return Error(ErrorCode::kCancelled, "the request was cancelled");
  };
  EXPECT_EQ(retry.run(stop.get_token(), cancelled).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(reads, 3);
}

TEST(ReadRetry, GivesUpAfterTheTimeoutAndFromThenOnAtOnce) {
  ReadRetry retry({.timeout = std::chrono::milliseconds(30), .first_interval = kShort});
  int reads = 0;
  const auto failing = [&]() -> Result<int> {
    ++reads;
    return refused();
  };
  const auto first = retry.run({}, failing);
  EXPECT_EQ(first.error().code(), ErrorCode::kIo);
  EXPECT_THAT(first.error().message(), HasSubstr("a.tar: cannot read"));
  EXPECT_THAT(first.error().message(), HasSubstr("io_timeout"));
  EXPECT_GT(reads, 1);
  reads = 0;
  EXPECT_FALSE(retry.run({}, failing).has_value());
  EXPECT_EQ(reads, 1);
}

TEST(ReadRetry, AStopEndsThePause) {
  ReadRetry retry({.timeout = std::chrono::minutes(1)});
  std::stop_source stop;
  std::jthread stopper([&] {
    while (retry.paused_s() == 0) std::this_thread::yield();
    stop.request_stop();
  });
  const auto read = retry.run(stop.get_token(), []() -> Result<int> { return refused(); });
  EXPECT_EQ(read.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(retry.paused_s(), 0);
}

TEST(ReadRetry, TellsOfAPauseAndOfItsEnd) {
  LogLines log;
  ReadRetry retry({.timeout = std::chrono::minutes(1),
                   .first_interval = kShort,
                   .quiet = std::chrono::nanoseconds(0),
                   .announce = log.sink()});
  std::atomic<bool> works = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      const auto read = retry.run({}, [&]() -> Result<int> {
        if (!works) return refused();
        return 1;
      });
      EXPECT_TRUE(read.has_value());
    });
  }
  while (log.lines().empty()) std::this_thread::yield();
  EXPECT_GT(retry.paused_s(), 0);
  works = true;
  readers.clear();
  EXPECT_EQ(retry.paused_s(), 0);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("delivery is paused since 0 s, and the job ends "
                                                 "after 60 s (io_timeout): a.tar: cannot read"),
                                       HasSubstr("reads succeed again")));
}

}  // namespace
}  // namespace isocost
