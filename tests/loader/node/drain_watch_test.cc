#include "loader/node/internal/drain_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <numeric>
#include <string>

#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string name_of(std::int32_t rank) { return "rank " + std::to_string(rank); }

TEST(DrainWatch, NamesTheRanksAndThoseWithoutAClient) {
  EXPECT_EQ(DrainWatch::text({{0, 2}, {1}}, 20s, name_of),
            "asked to stop: waits up to 20 s until the steps that ranks have begun are trained. "
            "Missing: rank 0, rank 2; rank 1, which has no client");
  EXPECT_THAT(DrainWatch::text({{}, {1, 3}}, 5s, name_of),
              HasSubstr("5 s until the steps that ranks have begun are trained. Missing: rank 1, "
                        "rank 3, which have no client"));
  EXPECT_EQ(DrainWatch::text({}, 20s, name_of), "");
}

TEST(DrainWatch, NamesFewOfManyRanks) {
  UnfinishedRanks many;
  many.present.resize(1000);
  std::iota(many.present.begin(), many.present.end(), 0);
  EXPECT_THAT(DrainWatch::text(many, 20s, name_of),
              AllOf(HasSubstr("rank 6, rank 7 and 992 other ranks"), Not(HasSubstr("rank 8"))));
}

TEST(DrainWatch, SaysItAtOnceAndAgainAndEndsTheWait) {
  LogLines log;
  std::promise<void> ended;
  const DrainWatch watch({.limit = 30ms,
                          .interval = 10ms,
                          .unfinished = [] { return UnfinishedRanks{{4}, {}}; },
                          .name = name_of,
                          .log = log.sink(),
                          .end = [&ended] { ended.set_value(); }});
  ended.get_future().wait();
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("up to 0.03 s"), HasSubstr("up to 0.02 s"),
                                       HasSubstr("up to 0.01 s")));
}

// docs/faults.md says both times. Kubernetes kills 30 s after it has asked a node to stop.
TEST(DrainWatch, WaitsForTwentySecondsUnlessToldOtherwise) {
  constexpr std::chrono::seconds kKilledAfter{30};
  constexpr std::chrono::seconds kForClientsToLeave{5};
  EXPECT_LT(DrainWatch::Options{}.limit + kForClientsToLeave, kKilledAfter);
  EXPECT_EQ(DrainWatch::Options{}.interval, 5s);
  LogLines log;
  std::promise<void> asked;
  {
    const DrainWatch watch({.unfinished =
                                [&asked] {
                                  asked.set_value();
                                  return UnfinishedRanks{{4}, {}};
                                },
                            .name = name_of,
                            .log = log.sink()});
    asked.get_future().wait();
  }
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("waits up to 20 s")));
}

TEST(DrainWatch, EndsWithItsOwner) {
  LogLines log;
  bool ended = false;
  {
    const DrainWatch watch({.limit = 1h,
                            .interval = 1h,
                            .unfinished = [] { return UnfinishedRanks{}; },
                            .name = name_of,
                            .log = log.sink(),
                            .end = [&ended] { ended = true; }});
  }
  EXPECT_FALSE(ended);
  EXPECT_THAT(log.lines(), ElementsAre());
}

}  // namespace
}  // namespace isocost
