// The method of measuring a model profile, on machines whose clocks are scripts.

#include "costmodel/profiling_method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/costmodel/support.h"

namespace isocost {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

double smooth(const ProfilingRun& run) {
  const auto length = static_cast<double>(run.length);
  return 1e-3 + static_cast<double>(run.sequences) * (1e-6 * length + 1e-9 * length * length);
}

// Makes the runs that the method asks for: `seconds` says what each takes (a third of it forward),
// `room` how many units fit into memory.
struct Machine {
  std::function<double(const ProfilingRun&)> seconds = smooth;
  std::int64_t room = std::numeric_limits<std::int64_t>::max();
  std::int64_t cut_room = std::numeric_limits<std::int64_t>::max();
  double elapsed_s = 0;
  std::vector<ProfilingRun> runs = {};
  std::vector<std::string> progress = {};

  Status step(ProfilingMethod& method) {
    const ProfilingRun run = *method.next();
    runs.push_back(run);
    if (run.length * run.sequences > (run.cut ? cut_room : room)) {
      return method.record_out_of_memory(Seconds(elapsed_s));
    }
    const double total_s = seconds(run);
    if (total_s > 0) elapsed_s += total_s;
    return method.record({.elapsed = Seconds(elapsed_s),
                          .forward = Seconds(total_s / 3),
                          .backward = Seconds(2 * total_s / 3),
                          .peak_bytes = 64 * run.length * run.sequences});
  }

  Status measure(ProfilingMethod& method) {
    while (method.next()) {
      ISOCOST_TRY(step(method));
      for (std::string& line : method.take_progress()) progress.push_back(std::move(line));
    }
    return {};
  }

  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> timed_runs() const {
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> counts;
    for (const ProfilingRun& run : runs) {
      if (run.kind == ProfilingRunKind::kTimed) ++counts[{run.length, run.sequences}];
    }
    return counts;
  }
};

ProfilingOptions options(double budget_s) {
  return {.module = "llm",
          .shortest = 16,
          .longest = 4096,
          .most_units = 16384,
          .budget = Seconds(budget_s)};
}

ProfilingMethod method_of(const ProfilingOptions& given) {
  Result<ProfilingMethod> method = ProfilingMethod::create(given);
  EXPECT_TRUE(method) << method.error().to_string();
  return *std::move(method);
}

ProfilingMethod measured(Machine& machine, const ProfilingOptions& given) {
  ProfilingMethod method = method_of(given);
  const Status status = machine.measure(method);
  EXPECT_TRUE(status) << status.error().to_string();
  return method;
}

std::int64_t length_of(const ProfilePoint& point) {
  return point.load.units / point.load.sequences;
}

std::set<std::int64_t> lengths_of(const std::vector<ProfilePoint>& points) {
  std::set<std::int64_t> lengths;
  for (const ProfilePoint& point : points) lengths.insert(length_of(point));
  return lengths;
}

std::set<std::pair<std::int64_t, std::int64_t>> loads_of(const std::vector<ProfilePoint>& points) {
  std::set<std::pair<std::int64_t, std::int64_t>> loads;
  for (const ProfilePoint& point : points) loads.emplace(length_of(point), point.load.sequences);
  return loads;
}

double hidden_seconds(const ProfilePoint& point) {
  return smooth({.length = length_of(point), .sequences = point.load.sequences});
}

const std::set<std::pair<std::int64_t, std::int64_t>> kGrid = {
    {16, 1},   {16, 32},  {16, 1024}, {64, 1},    {64, 16},  {64, 256}, {256, 1}, {256, 8},
    {256, 64}, {1024, 1}, {1024, 4},  {1024, 16}, {4096, 1}, {4096, 2}, {4096, 4}};

TEST(ProfilingMethod, GridIsFiveLengthsByThreeCounts) {
  Machine machine;
  const ProfilingMethod method = measured(machine, options(1e-9));
  EXPECT_EQ(loads_of(method.points()), kGrid);
}

TEST(ProfilingMethod, SmallLoadsComeFirst) {
  Machine machine;
  measured(machine, options(1e-9));
  EXPECT_TRUE(std::is_sorted(machine.runs.begin(), machine.runs.end(),
                             [](const ProfilingRun& a, const ProfilingRun& b) {
                               return a.length * a.sequences < b.length * b.sequences;
                             }));
}

TEST(ProfilingMethod, LengthsAreMultiples) {
  Machine machine;
  ProfilingOptions twelves = options(10);
  twelves.multiple = 12;
  const ProfilingMethod method = measured(machine, twelves);
  for (const ProfilePoint& point : method.points()) {
    EXPECT_EQ(length_of(point) % 12, 0);
    EXPECT_LE(point.load.units, 16384);
  }
}

TEST(ProfilingMethod, PointsAreTheMeasuredSeconds) {
  Machine machine;
  const ProfilingMethod method = measured(machine, options(1000));
  EXPECT_GE(method.points().size(), kGrid.size());
  for (const ProfilePoint& point : method.points()) {
    EXPECT_NEAR(point.forward_s / hidden_seconds(point), 1.0 / 3, 1e-9);
    EXPECT_NEAR(point.seconds() / hidden_seconds(point), 1, 1e-9);
    EXPECT_EQ(point.spread, 0);
    EXPECT_EQ(point.peak_bytes, 64 * point.load.units);
    EXPECT_EQ(point.load.units_squared, length_of(point) * point.load.units);
  }
}

TEST(ProfilingMethod, ALoadWarmsUpTwiceAndIsTimedThreeTimesWithoutTime) {
  Machine machine;
  measured(machine, options(1e-9));
  ASSERT_EQ(machine.runs.size(), kGrid.size() * (2 + 3));
  for (std::size_t i = 0; i < machine.runs.size(); ++i) {
    const auto kind = i % 5 == 0   ? ProfilingRunKind::kWarmUp
                      : i % 5 == 1 ? ProfilingRunKind::kPeakMemory
                                   : ProfilingRunKind::kTimed;
    EXPECT_EQ(machine.runs[i].kind, kind);
    EXPECT_EQ(machine.runs[i].new_inputs, i % 5 == 0);
    EXPECT_FALSE(machine.runs[i].cut);
  }
}

TEST(ProfilingMethod, ALoadWithoutNoiseIsTimedSevenTimes) {
  Machine machine;
  measured(machine, options(1000));
  for (const auto& [load, runs] : machine.timed_runs()) EXPECT_EQ(runs, 7U);
}

TEST(ProfilingMethod, NoiseIsRunDownToThreePercent) {
  Random random(1);
  Machine machine{.seconds = [&random](const ProfilingRun& run) {
    return smooth(run) * (1 + 0.05 * noise(random));
  }};
  const ProfilingMethod method = measured(machine, options(10'000));
  for (const ProfilePoint& point : method.points()) {
    EXPECT_LE(point.spread, 0.03);
    EXPECT_NEAR(point.seconds() / hidden_seconds(point), 1, 0.06);
  }
  for (const auto& [load, runs] : machine.timed_runs()) EXPECT_LE(runs, 200U);
}

TEST(ProfilingMethod, OneOutlierDoesNotMoveAPoint) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun& run) {
    return smooth(run) * (machine.runs.size() % 5 == 4 ? 100 : 1);
  };
  const ProfilingMethod method = measured(machine, options(1e-9));
  for (const ProfilePoint& point : method.points()) {
    EXPECT_NEAR(point.seconds() / hidden_seconds(point), 1, 1e-9);
  }
}

// Half of the runs take twice as long as the others: no number of runs narrows the interval.
TEST(ProfilingMethod, ALoadThatNeverSettlesIsGivenUpAfter200Runs) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun& run) {
    return smooth(run) * (machine.runs.size() % 2 == 0 ? 1 : 2);
  };
  const ProfilingMethod method = measured(machine, options(1e6));
  for (const auto& [load, runs] : machine.timed_runs()) EXPECT_EQ(runs, 200U);
  for (const ProfilePoint& point : method.points()) EXPECT_GT(point.spread, 0.03);
}

TEST(ProfilingMethod, ALoadThatNeverSettlesKeepsToItsShareOfTheBudget) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun& run) {
    return smooth(run) * (machine.runs.size() % 2 == 0 ? 1 : 2);
  };
  const ProfilingMethod method = measured(machine, options(6));
  EXPECT_EQ(loads_of(method.points()).size(), method.points().size());
  EXPECT_GE(method.points().size(), kGrid.size());
  EXPECT_LT(machine.elapsed_s, 6.2);
}

TEST(ProfilingMethod, AGridLoadTakesHalfOfItsEvenShareOfWhatIsLeft) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun&) {
    return machine.runs.size() % 2 == 0 ? 1e-3 : 2e-3;
  };
  ProfilingMethod method = method_of(options(3));
  while (method.points().empty()) ASSERT_TRUE(machine.step(method));
  EXPECT_NEAR(machine.elapsed_s, 3.0 / 15 / 2, 2e-3);
  const double after_first_s = machine.elapsed_s;
  while (method.points().size() < 2) ASSERT_TRUE(machine.step(method));
  EXPECT_NEAR(machine.elapsed_s - after_first_s, (3 - after_first_s) / 14 / 2, 2e-3);
}

TEST(ProfilingMethod, SpreadIsHalfOfTheMediansInterval) {
  int run = 0;
  Machine machine{.seconds = [&run](const ProfilingRun& at) {
    // 200 values from 1 to 200, scattered: 67 has no factor in common with 200.
    return at.kind == ProfilingRunKind::kTimed ? 1 + (67 * run++) % 200 : 1;
  }};
  ProfilingMethod method = method_of(options(1e6));
  while (method.points().empty()) ASSERT_TRUE(machine.step(method));
  ASSERT_EQ(run, 200);
  // The interval reaches 1.96 √200 / 2 = 13.9 ranks to either side: from the 87th to the 115th.
  EXPECT_NEAR(method.points()[0].spread, (115 - 87) / 2.0 / 100.5, 1e-12);
  EXPECT_NEAR(method.points()[0].seconds(), 100.5, 1e-9);
}

TEST(ProfilingMethod, MoreIsMeasuredWhereTheCurveBends) {
  Machine machine{.seconds = [](const ProfilingRun& run) {
    const double a_unit = run.length < 600 ? 1e-6 : 5e-6;
    return 1e-3 + a_unit * static_cast<double>(run.length * run.sequences);
  }};
  const std::set<std::int64_t> lengths = lengths_of(measured(machine, options(1000)).points());
  EXPECT_GE(
      std::count_if(lengths.begin(), lengths.end(), [](auto n) { return n > 300 && n < 1200; }), 3);
  EXPECT_LE(std::count_if(lengths.begin(), lengths.end(), [](auto n) { return n < 100; }), 3);
}

// A device whose host needs 80 ms to launch its kernels.
double gated(const ProfilingRun& run) {
  return std::max(0.08, 1e-5 * static_cast<double>(run.length * run.sequences));
}

TEST(ProfilingMethod, HalfOfTheLargestLoadIsMeasuredWhereADeviceWaitsForItsHost) {
  Machine machine{.seconds = gated};
  auto expected = kGrid;
  expected.merge(
      std::set<std::pair<std::int64_t, std::int64_t>>{{16, 512}, {64, 128}, {256, 32}, {1024, 8}});
  const auto loads = loads_of(measured(machine, options(1000)).points());
  EXPECT_TRUE(std::includes(loads.begin(), loads.end(), expected.begin(), expected.end()));
}

TEST(ProfilingMethod, WithoutTimeNoHalfIsMeasured) {
  Machine machine{.seconds = gated};
  EXPECT_EQ(loads_of(measured(machine, options(1)).points()), kGrid);
}

TEST(ProfilingMethod, AHalfIsThatOfTheLargestLoadWithRoom) {
  Machine machine{.seconds = gated, .room = 9000};
  const auto loads = loads_of(measured(machine, options(1000)).points());
  EXPECT_THAT(loads, Contains(std::pair(std::int64_t{4096}, std::int64_t{2})));
  EXPECT_THAT(loads, Not(Contains(std::pair(std::int64_t{16}, std::int64_t{512}))));
}

TEST(ProfilingMethod, NothingIsAddedToACurveThatInterpolates) {
  // Seconds of a sequence are a power of its length: a line in logarithms.
  Machine machine{.seconds = [](const ProfilingRun& run) {
    return 1e-6 * static_cast<double>(run.length * run.sequences);
  }};
  EXPECT_EQ(loads_of(measured(machine, options(1000)).points()), kGrid);
}

TEST(ProfilingMethod, WithoutTimeNoBendIsMeasured) {
  Machine machine{.seconds = [](const ProfilingRun& run) {
    return (run.length < 600 ? 1 : 3) * static_cast<double>(run.length * run.sequences);
  }};
  EXPECT_EQ(loads_of(measured(machine, options(1)).points()), kGrid);
}

TEST(ProfilingMethod, ADisturbedLoadIsMeasuredOnceMore) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun& run) {
    return smooth(run) * (machine.runs.size() <= 10 ? 10 : 1);
  };
  const ProfilingMethod method = measured(machine, options(1e-9));
  EXPECT_EQ(loads_of(method.points()), kGrid);
  for (const ProfilePoint& point : method.points()) {
    EXPECT_NEAR(point.seconds() / hidden_seconds(point), 1, 1e-9);
  }
  EXPECT_THAT(machine.progress,
              Contains("llm: 1 x 16: slower than a larger load, measured once more"));
}

TEST(ProfilingMethod, ALoadThatStaysSlowerThanALargerOneIsLeftOut) {
  Machine machine{.seconds = [](const ProfilingRun& run) {
    return smooth(run) * (run.length * run.sequences == 16 ? 10 : 1);
  }};
  const ProfilingMethod method = measured(machine, options(1e-9));
  auto without = kGrid;
  without.erase({16, 1});
  EXPECT_EQ(loads_of(method.points()), without);
  EXPECT_EQ(machine.timed_runs().at({16, 1}), 6U);
  EXPECT_THAT(machine.progress, Contains("llm: 1 x 16: slower than a larger load, left out"));
}

TEST(ProfilingMethod, MemorysBoundaryIsTheSmallestLoadWithoutRoom) {
  Machine machine{.room = 5000};
  const ProfilingMethod method = measured(machine, options(1000));
  EXPECT_EQ(method.out_of_memory().units, 4096 * 2);
  for (const ProfilePoint& point : method.points()) EXPECT_LE(point.load.units, 5000);
}

TEST(ProfilingMethod, LoadsBeyondTheBoundaryAreNotTried) {
  Machine machine{.room = 5000};
  measured(machine, options(1e-9));
  EXPECT_TRUE(std::none_of(machine.runs.begin(), machine.runs.end(), [](const ProfilingRun& run) {
    return run.length == 4096 && run.sequences == 4;
  }));
}

// Another process holds the memory while 1 x 4096 is tried. 16 x 1024 has more units, as many
// squares and shorter sequences: it is tried, and runs.
TEST(ProfilingMethod, ABoundaryThatALargerLoadHasPassedIsForgotten) {
  Machine machine;
  ProfilingMethod method = method_of(options(1e-9));
  while (method.next()) {
    if (method.next()->length != 4096) {
      ASSERT_TRUE(machine.step(method));
      continue;
    }
    ASSERT_TRUE(method.record_out_of_memory(Seconds(machine.elapsed_s)));
    EXPECT_EQ(method.out_of_memory().units, 4096);
  }
  EXPECT_EQ(method.out_of_memory(), ModuleLoad{});
  EXPECT_EQ(lengths_of(method.points()), (std::set<std::int64_t>{16, 64, 256, 1024}));
}

TEST(ProfilingMethod, NoRoomForTheSmallestLoadIsAnError) {
  Machine machine{.room = 10};
  ProfilingMethod method = method_of(options(100));
  const Status status = machine.measure(method);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(status.error().message(),
              HasSubstr("llm: out of memory at its smallest load, 1 x 16"));
  EXPECT_FALSE(method.next());
}

TEST(ProfilingMethod, ARunDuringWhichTheClockWasSetBackIsRepeated) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun& run) {
    return machine.runs.size() == 48 ? -5.0 : smooth(run);
  };
  const ProfilingMethod method = measured(machine, options(1e-9));
  EXPECT_EQ(machine.runs.size(), kGrid.size() * 5 + 1);
  for (const ProfilePoint& point : method.points()) {
    EXPECT_NEAR(point.seconds() / hidden_seconds(point), 1, 1e-9);
  }
}

TEST(ProfilingMethod, AClockThatStandsStillIsAnError) {
  for (const double seconds : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    Machine machine{.seconds = [seconds](const ProfilingRun&) { return seconds; }};
    ProfilingMethod method = method_of(options(100));
    const Status status = machine.measure(method);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(),
                HasSubstr("llm: the clock runs backwards or stands still"));
    EXPECT_EQ(machine.runs.size(), 2U + 4U);
    EXPECT_FALSE(method.next());
    EXPECT_EQ(method.record({}).error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(method.record_out_of_memory({}).error().code(), ErrorCode::kInvalidArgument);
  }
}

ProfilingOptions with_cuts(double budget_s) {
  ProfilingOptions given = options(budget_s);
  given.layers = 8;
  given.cuts = {{.tensor = 2}, {.layers = 4}};
  return given;
}

TEST(ProfilingMethod, CutsRunWithTheLargestLoadOfEachLength) {
  Machine machine{.seconds = [](const ProfilingRun& run) {
    return smooth(run) * (!run.cut ? 1 : *run.cut == 0 ? 0.6 : 0.5);
  }};
  const ProfilingMethod method = measured(machine, with_cuts(1000));
  ASSERT_EQ(method.cuts().size(), 2U);
  EXPECT_EQ(method.cuts()[0].tensor, 2);
  EXPECT_EQ(method.cuts()[0].layers, 0);
  EXPECT_EQ(method.cuts()[1].tensor, 1);
  EXPECT_EQ(method.cuts()[1].layers, 4);
  const std::set<std::pair<std::int64_t, std::int64_t>> largest = {
      {16, 1024}, {64, 256}, {256, 64}, {1024, 16}, {4096, 4}};
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loads_of(method.cuts()[i].points), largest);
    for (const ProfilePoint& point : method.cuts()[i].points) {
      EXPECT_NEAR(point.seconds() / hidden_seconds(point), i == 0 ? 0.6 : 0.5, 1e-9);
    }
  }
}

TEST(ProfilingMethod, EachCutTakesATenthOfTheBudget) {
  Machine machine;
  machine.seconds = [&machine](const ProfilingRun&) {
    return machine.runs.size() % 2 == 0 ? 1e-3 : 2e-3;
  };
  ProfilingMethod method = method_of(with_cuts(2));
  while (!method.next()->cut) ASSERT_TRUE(machine.step(method));
  const double whole_s = machine.elapsed_s;
  EXPECT_LT(whole_s, 1.65);
  ASSERT_TRUE(machine.measure(method));
  EXPECT_NEAR(machine.elapsed_s - whole_s, 0.4, 0.04);
}

TEST(ProfilingMethod, ACutsBudgetIsSharedByTheLengthsThatWereMeasured) {
  Machine machine{.room = 1000};
  machine.seconds = [&machine](const ProfilingRun&) {
    return machine.runs.size() % 2 == 0 ? 1e-3 : 2e-3;
  };
  ProfilingOptions given = with_cuts(2);
  given.most_units = 4096;
  ProfilingMethod method = method_of(given);
  while (method.next() && !method.next()->cut) ASSERT_TRUE(machine.step(method));
  const double whole_s = machine.elapsed_s;
  ASSERT_TRUE(machine.measure(method));
  // No largest load had room, so no cut can be compared: none of their budget is spent.
  EXPECT_EQ(machine.elapsed_s, whole_s);
  EXPECT_TRUE(method.cuts()[0].points.empty());
}

TEST(ProfilingMethod, ACutWithoutRoomIsLeftOutAndNoBoundary) {
  Machine machine{.cut_room = 16383};
  const ProfilingMethod method = measured(machine, with_cuts(10));
  ASSERT_EQ(method.cuts().size(), 2U);
  EXPECT_TRUE(method.cuts()[0].points.empty());
  EXPECT_EQ(method.out_of_memory(), ModuleLoad{});
  EXPECT_THAT(machine.progress, Contains("llm, 2 tensor ranks: 4 x 4096: out of memory"));
  EXPECT_THAT(machine.progress, Contains("llm, 4 layers: 4 x 4096: out of memory"));
}

TEST(ProfilingMethod, ACutsContradictionsAreLeftOut) {
  Machine machine{.seconds = [](const ProfilingRun& run) {
    // 4 x 4096 has no less to do than 1 x 16 alone, so a cut's largest loads differ in sequences.
    return run.cut && run.length == 4096 ? 1e-6 : smooth(run);
  }};
  const ProfilingMethod method = measured(machine, with_cuts(1e-9));
  for (const ProfileCut& cut : method.cuts()) {
    for (const ProfilePoint& one : cut.points) {
      for (const ProfilePoint& other : cut.points) EXPECT_FALSE(contradicts(one, other));
    }
  }
}

TEST(ProfilingMethod, EqualRecordsLeadToEqualRuns) {
  Random random(7);
  Machine machine{.seconds = [&random](const ProfilingRun& run) {
    return smooth(run) * (1 + 0.1 * noise(random));
  }};
  ProfilingMethod first = method_of(with_cuts(5));
  ProfilingMethod second = method_of(with_cuts(5));
  while (first.next()) {
    ASSERT_EQ(first.next(), second.next());
    const double total_s = machine.seconds(*first.next());
    machine.elapsed_s += total_s;
    const ProfilingResult result{.elapsed = Seconds(machine.elapsed_s),
                                 .forward = Seconds(total_s / 2),
                                 .backward = Seconds(total_s / 2)};
    ASSERT_TRUE(first.record(result));
    ASSERT_TRUE(second.record(result));
  }
  EXPECT_FALSE(second.next());
}

TEST(ProfilingMethod, ProgressIsALineForEachLoad) {
  Machine machine{.seconds = [](const ProfilingRun&) { return 1.5e-3; }};
  measured(machine, options(1e-9));
  EXPECT_EQ(machine.progress.size(), kGrid.size());
  EXPECT_EQ(machine.progress[0], "llm: 1 x 16: 1.5 ms ± 0.0 %");
}

TEST(ProfilingMethod, OptionsThatCannotBeAreNamed) {
  const auto refused = [](const std::function<void(ProfilingOptions&)>& change) {
    ProfilingOptions given = options(10);
    change(given);
    const auto method = ProfilingMethod::create(given);
    if (method) return std::string("nothing was refused");
    EXPECT_EQ(method.error().code(), ErrorCode::kInvalidArgument);
    return method.error().message();
  };
  EXPECT_THAT(refused([](auto& o) { o.shortest = 0; }), HasSubstr("llm: lengths are (0, 4096)"));
  EXPECT_THAT(refused([](auto& o) { o.longest = 8; }), HasSubstr("llm: lengths are (16, 8)"));
  EXPECT_THAT(refused([](auto& o) { o.multiple = 0; }), HasSubstr("multiple is 0"));
  EXPECT_THAT(refused([](auto& o) { o.multiple = 5000; }),
              HasSubstr("multiple is 5000; no length up to 4096"));
  EXPECT_THAT(refused([](auto& o) { o.most_units = 4095; }),
              HasSubstr("most_units is 4095, below the longest sequence, 4096"));
  EXPECT_THAT(refused([](auto& o) { o.most_units = std::int64_t{1} << 40; }), HasSubstr("2^49"));
  for (const double budget_s : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT(refused([=](auto& o) { o.budget = Seconds(budget_s); }),
                HasSubstr("the budget is"));
  }
  EXPECT_THAT(refused([](auto& o) { o.shortest = o.longest = o.most_units = 15, o.multiple = 10; }),
              HasSubstr("no length fits into most_units = 15"));
  EXPECT_THAT(refused([](auto& o) { o.cuts = {{}}; }), HasSubstr("more than one tensor rank"));
  EXPECT_THAT(refused([](auto& o) { o.cuts = {{.tensor = 0}}; }),
              HasSubstr("more than one tensor rank"));
  EXPECT_THAT(refused([](auto& o) { o.cuts = {{.layers = 4}}; }),
              HasSubstr("give the module's architecture"));
  for (const std::int64_t layers : {-1, 0, 8}) {
    EXPECT_THAT(refused([=](auto& o) { o.layers = 8, o.cuts = {{.layers = layers}}; }),
                HasSubstr("fewer layers than it has"));
  }
  EXPECT_THAT(refused([](auto& o) { o.cuts = {{.tensor = 2}, {.tensor = 2}}; }),
              HasSubstr("two cuts have tensor = 2, layers = all"));
}

TEST(ProfilingMethod, OutOfMemoryIsRecognizedByItsWords) {
  for (const char* message : {"CUDA out of memory. Tried to allocate 2.00 GiB",
                              "DefaultCPUAllocator: can't allocate memory",
                              "not enough memory: you tried to allocate 8 GB",
                              "CUBLAS_STATUS_ALLOC_FAILED when calling"}) {
    EXPECT_TRUE(says_out_of_memory(message)) << message;
  }
  EXPECT_FALSE(says_out_of_memory("shapes differ"));
}

}  // namespace
}  // namespace isocost
