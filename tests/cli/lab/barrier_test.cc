#include "cli/lab/barrier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <thread>
#include <vector>

namespace isocost::cli {
namespace {

constexpr std::chrono::seconds kLong{60};  // no test waits for so long

EmulatedTime now() { return EmulatedTime::clock::now(); }

TEST(Barrier, RunsItsFunctionOncePerRoundWhileAllWait) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 100;
  std::vector<int> written(kThreads, 0);  // each thread writes its own, the function reads all
  int rounds = 0;
  bool all_alike = true;
  Barrier barrier(kThreads, [&](EmulatedTime) {
    ++rounds;
    for (const int count : written) all_alike = all_alike && count == rounds;
  });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          written[static_cast<std::size_t>(t)] += 1;
          EXPECT_TRUE(barrier.join(now(), {}, now() + kLong));
        }
      });
    }
  }
  EXPECT_EQ(rounds, kRounds);
  EXPECT_TRUE(all_alike);
}

// Threads whose virtual clocks differ leave with the time of the latest, in every round.
TEST(Barrier, GivesTheLatestTimeToAll) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 50;
  std::vector<EmulatedTime> at_barrier;
  Barrier barrier(kThreads, [&](EmulatedTime latest) { at_barrier.push_back(latest); });
  std::vector<std::vector<EmulatedTime>> given(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          // Later rounds are earlier: a time of the round before must not count.
          const EmulatedTime mine(std::chrono::seconds(10 * (kRounds - round) + (t + round) % 3));
          given[static_cast<std::size_t>(t)].push_back(
              barrier.join(mine, {}, now() + kLong).value());
        }
      });
    }
  }
  std::vector<EmulatedTime> expected;
  for (int round = 0; round < kRounds; ++round) {
    expected.emplace_back(std::chrono::seconds(10 * (kRounds - round) + 2));
  }
  EXPECT_EQ(at_barrier, expected);
  for (const auto& of_thread : given) EXPECT_EQ(of_thread, expected);
}

TEST(Barrier, AStopAndADeadlineEndTheWait) {
  Barrier barrier(2, nullptr);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(barrier.join(now(), stop.get_token(), now() + kLong));
  Barrier other(2, nullptr);
  EXPECT_FALSE(other.join(now(), {}, now()));
}

// The function may take the barrier's lock, as join() of another round does.
TEST(Barrier, RunsItsFunctionWithoutItsLock) {
  Barrier* self = nullptr;
  int calls = 0;
  Barrier barrier(1, [&](EmulatedTime) {
    if (++calls == 1) self->join(now(), {}, now() + kLong);
  });
  self = &barrier;
  EXPECT_TRUE(barrier.join(now(), {}, now() + kLong));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace isocost::cli
