// The counts of a mixture beside its proportions, over 10^6 steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSteps = 1'000'000;

MixtureSource source(std::string name, std::vector<Breakpoint> points, bool ramp = false) {
  MixtureSource made;
  made.name = std::move(name);
  made.size = 1000;
  made.schedule.points = std::move(points);
  made.schedule.ramp = ramp;
  return made;
}

std::shared_ptr<const Mixture> mixture(std::vector<MixtureSource> sources, std::uint64_t batch) {
  MixtureOptions options;
  options.sources = std::move(sources);
  options.global_batch_size = batch;
  return Mixture::create(std::move(options)).value();
}

// Returns a source's proportion at a step from its breakpoints, one after the other.
double proportion_at(const ProportionSchedule& schedule, std::uint64_t step) {
  double value = 0;
  for (std::size_t i = 0; i < schedule.points.size(); ++i) {
    const Breakpoint& from = schedule.points[i];
    if (from.step > step) break;
    value = from.proportion;
    if (!schedule.ramp || i + 1 == schedule.points.size()) continue;
    const Breakpoint& to = schedule.points[i + 1];
    value += (to.proportion - value) *
             (static_cast<double>(step - from.step) / static_cast<double>(to.step - from.step));
  }
  return step >= schedule.end ? 0 : value;
}

using SharesAt = std::function<std::vector<double>(std::uint64_t step)>;

std::vector<double> normalised(std::vector<double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  for (double& value : values) value /= sum;
  return values;
}

SharesAt held_shares(const Mixture& mixture) {
  return [&mixture](std::uint64_t step) {
    std::vector<double> values;
    for (const MixtureSource& source : mixture.sources()) {
      values.push_back(proportion_at(source.schedule, step));
    }
    return normalised(values);
  };
}

struct Range {
  double least = 0;
  double most = 0;
};

// Returns the extremes, over all steps and sources, of cumulative shares less counts.
Range owed(const Mixture& mixture, const SharesAt& shares_at, std::uint64_t steps = kSteps) {
  const std::size_t n = mixture.sources().size();
  const auto batch = static_cast<double>(mixture.options().global_batch_size);
  std::vector<double> due(n);
  Range range;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const StepDraws draws = mixture.draws(step);
    const std::vector<double> shares = shares_at(step);
    EXPECT_EQ(draws.size(), mixture.options().global_batch_size) << step;
    for (std::size_t i = 0; i < n; ++i) {
      // The small differences are summed, which loses less than sums of 10^9.
      due[i] += batch * shares[i] - static_cast<double>(draws.counts[i]);
      EXPECT_TRUE(shares[i] > 0 || draws.counts[i] == 0) << step << ": " << i;
      range.least = std::min(range.least, due[i]);
      range.most = std::max(range.most, due[i]);
    }
    if (::testing::Test::HasFailure()) break;
  }
  return range;
}

double harmonic(std::size_t n) {
  double sum = 0;
  for (std::size_t i = 2; i <= n; ++i) sum += 1 / static_cast<double>(i);
  return sum;
}

constexpr double kRounding = 0.01;  // 10^6 steps × batch × 2^-40, and the sums of this test

void expect_close(const Range& range, std::size_t n) {
  EXPECT_LE(range.most, harmonic(n) + kRounding);
  EXPECT_GT(range.least, n == 2 ? -0.5 - kRounding : -1 - kRounding);
}

TEST(MixtureBounds, TwoSources) {
  for (const double other : {1.0, 0.5, 1e-9, 0.123456789}) {
    const auto two = mixture({source("a", {{0, 1}}), source("b", {{0, other}})}, 7);
    expect_close(owed(*two, held_shares(*two)), 2);
  }
}

TEST(MixtureBounds, TwoSourcesOfWhichOneComesLateEndsAndReturns) {
  const auto two = mixture(
      {source("a", {{0, 3}}), source("b", {{1000, 1}, {5001, 0}, {77777, 0.3}, {500'000, 1e-9}})},
      5);
  expect_close(owed(*two, held_shares(*two)), 2);
}

TEST(MixtureBounds, TwoSourcesWithARamp) {
  const auto two = mixture({source("a", {{0, 1}}), source("b", {{0, 1}, {kSteps, 9}}, true)}, 16);
  // Linear between the normalised shares 1/2 and 9/10.
  const auto shares = [](std::uint64_t step) {
    const double share = 0.5 + 0.4 * static_cast<double>(step) / static_cast<double>(kSteps);
    return std::vector<double>{1 - share, share};
  };
  expect_close(owed(*two, shares), 2);
}

TEST(MixtureBounds, ThreeSourcesOneTinyOneLate) {
  const auto three =
      mixture({source("a", {{0, 1}}), source("b", {{0, 1e-9}}), source("c", {{333'333, 0.7}})}, 3);
  expect_close(owed(*three, held_shares(*three)), 3);
}

TEST(MixtureBounds, AHugeBatch) {
  const auto three = mixture(
      {source("a", {{0, 1}}), source("b", {{0, 1e-9}}), source("c", {{0, 0.7}})}, 10'000'000);
  const Range range = owed(*three, held_shares(*three), 1000);
  EXPECT_LE(range.most, harmonic(3) + 0.1);  // shares have an error of 2^-40
  EXPECT_GT(range.least, -1.1);
}

std::vector<MixtureSource> seventeen(
    const std::function<std::vector<Breakpoint>(std::size_t)>& points) {
  std::vector<MixtureSource> sources;
  for (std::size_t i = 0; i < 17; ++i) {
    sources.push_back(source(std::string(1, static_cast<char>('a' + i)), points(i)));
  }
  return sources;
}

TEST(MixtureBounds, SeventeenEqualSourcesOneSampleAStep) {
  const auto equal =
      mixture(seventeen([](std::size_t) { return std::vector<Breakpoint>{{0, 1}}; }), 1);
  expect_close(owed(*equal, held_shares(*equal)), 17);
}

TEST(MixtureBounds, SeventeenSourcesThatJoinOneAfterTheOther) {
  Random random(3);
  const auto late =
      mixture(seventeen([&](std::size_t i) {
                return std::vector<Breakpoint>{
                    {i * 3001, std::ldexp(random.uniform() + 1e-6, -static_cast<int>(i))}};
              }),
              4);
  expect_close(owed(*late, held_shares(*late)), 17);
}

// Shares of each step are drawn anew, in breakpoints of every source.
TEST(MixtureBounds, SeventeenSourcesThatChangeAtEveryStep) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const auto changing =
        mixture(seventeen([&](std::size_t) {
                  std::vector<Breakpoint> points;
                  for (std::uint64_t step = 0; step < 1000; ++step) {
                    points.push_back({step, std::pow(random.uniform(), 8) + 1e-6});
                  }
                  return points;
                }),
                1 + seed % 3);
    expect_close(owed(*changing, held_shares(*changing), 2000), 17);
  }
}

TEST(MixtureBounds, SeventeenSourcesWithRampsFromEndToEnd) {
  Random random(11);
  constexpr std::uint64_t kStretch = 100'003;
  std::vector<std::vector<double>> values(12);
  for (auto& row : values) {
    for (std::size_t i = 0; i < 17; ++i) row.push_back(std::pow(random.uniform(), 6) + 1e-6);
  }
  auto sources = seventeen([&](std::size_t i) {
    std::vector<Breakpoint> points;
    for (std::size_t p = 0; p < values.size(); ++p) points.push_back({p * kStretch, values[p][i]});
    return points;
  });
  for (MixtureSource& ramp : sources) ramp.schedule.ramp = true;
  const auto ramps = mixture(std::move(sources), 4);
  const auto shares = [&](std::uint64_t step) {
    const std::vector<double> from = normalised(values[step / kStretch]);
    std::vector<double> to = normalised(values[step / kStretch + 1]);
    const double part = static_cast<double>(step % kStretch) / kStretch;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] * (1 - part) + to[i] * part;
    return to;
  };
  expect_close(owed(*ramps, shares), 17);
}

// The worst filler known: all that were not drawn share a step's sample.
TEST(MixtureBounds, ASourceThatIsPassedOverOnPurposeWaitsForTheBoundOnly) {
  const std::size_t n = 17;
  std::vector<std::vector<Breakpoint>> points(n);
  std::vector<bool> drawn(n, false);
  double most = 0;
  for (std::uint64_t step = 0; step + 1 < n; ++step) {
    for (std::size_t i = 0; i < n; ++i) points[i].push_back({step, drawn[i] ? 1e-7 : 1});
    const auto filled = mixture(seventeen([&](std::size_t i) { return points[i]; }), 1);
    const StepDraws draws = filled->draws(step);
    for (std::size_t i = 0; i < n; ++i) drawn[i] = drawn[i] || draws.counts[i] > 0;
    most = owed(*filled, held_shares(*filled), step + 1).most;
  }
  EXPECT_NEAR(most, harmonic(n), 1e-3);  // the bound is reached, and not exceeded
}

// Sources come and go at random, all with few samples a step.
TEST(MixtureBounds, SeventeenSourcesThatComeAndGo) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    auto sources = seventeen([&](std::size_t i) {
      std::vector<Breakpoint> points;
      for (std::uint64_t step = 0; step < 900; ++step) {
        const bool there = i == 0 || random.below(3) > 0;
        points.push_back({step, there ? std::pow(random.uniform(), 4) + 1e-6 : 0});
      }
      return points;
    });
    const auto hostile = mixture(std::move(sources), 1 + seed % 3);
    const Range range = owed(*hostile, held_shares(*hostile), 2000);
    const double bound = 1 + std::log2(17.0);
    EXPECT_LE(range.most, bound);
    EXPECT_GE(range.least, -bound);
  }
}

TEST(MixtureBounds, SeventeenSourcesOfWhichAllButOneStopAtOnce) {
  for (std::uint64_t stop = 1; stop < 40; ++stop) {
    const auto stopping = mixture(seventeen([&](std::size_t i) {
                                    std::vector<Breakpoint> points{{0, 1}};
                                    if (i != 8) points.push_back({stop, 0});
                                    return points;
                                  }),
                                  1);
    const Range range = owed(*stopping, held_shares(*stopping), 100);
    EXPECT_LE(range.most, harmonic(17) + kRounding);
    EXPECT_GT(range.least, -2);
  }
}

}  // namespace
}  // namespace isocost
