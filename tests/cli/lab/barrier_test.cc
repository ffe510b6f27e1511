#include "cli/lab/barrier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

namespace isocost::cli {
namespace {

constexpr std::chrono::seconds kLong{60};  // no test waits for so long

TEST(Barrier, RunsItsFunctionOncePerRoundWhileAllWait) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 100;
  std::vector<int> written(kThreads, 0);  // each thread writes its own, the function reads all
  int rounds = 0;
  bool all_alike = true;
  Barrier barrier(kThreads, [&] {
    ++rounds;
    for (const int count : written) all_alike = all_alike && count == rounds;
  });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          written[static_cast<std::size_t>(t)] += 1;
          EXPECT_TRUE(barrier.join({}, std::chrono::steady_clock::now() + kLong));
        }
      });
    }
  }
  EXPECT_EQ(rounds, kRounds);
  EXPECT_TRUE(all_alike);
}

TEST(Barrier, AStopAndADeadlineEndTheWait) {
  Barrier barrier(2, nullptr);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(barrier.join(stop.get_token(), std::chrono::steady_clock::now() + kLong));
  Barrier other(2, nullptr);
  EXPECT_FALSE(other.join({}, std::chrono::steady_clock::now()));
}

// The function may take the barrier's lock, as join() of another round does.
TEST(Barrier, RunsItsFunctionWithoutItsLock) {
  Barrier* self = nullptr;
  int calls = 0;
  Barrier barrier(1, [&] {
    if (++calls == 1) self->join({}, std::chrono::steady_clock::now() + kLong);
  });
  self = &barrier;
  EXPECT_TRUE(barrier.join({}, std::chrono::steady_clock::now() + kLong));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace isocost::cli
