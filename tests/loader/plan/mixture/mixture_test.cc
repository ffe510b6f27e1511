#include "loader/plan/mixture/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"

namespace isocost {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MixtureSource source(std::string name, std::vector<Breakpoint> points, std::uint64_t epochs = 0,
                     std::uint64_t size = 100) {
  MixtureSource made;
  made.name = std::move(name);
  made.size = size;
  made.schedule.points = std::move(points);
  made.epochs = epochs;
  return made;
}

MixtureOptions options(std::vector<MixtureSource> sources, std::uint64_t batch = 8) {
  MixtureOptions options;
  options.sources = std::move(sources);
  options.global_batch_size = batch;
  return options;
}

std::shared_ptr<const Mixture> create(MixtureOptions given) {
  return Mixture::create(std::move(given)).value();
}

using Counts = std::map<std::string, std::uint64_t>;

Counts counts_of(const Mixture& mixture, std::uint64_t position) {
  Counts counts;
  const StepDraws draws = mixture.draws(position);
  for (std::size_t i = 0; i < draws.counts.size(); ++i) {
    if (draws.counts[i] > 0) counts[mixture.sources()[i].name] = draws.counts[i];
  }
  return counts;
}

std::vector<Counts> first(const Mixture& mixture, std::uint64_t steps) {
  std::vector<Counts> all;
  for (std::uint64_t step = 0; step < steps; ++step) all.push_back(counts_of(mixture, step));
  return all;
}

// Counts are a promise to those who resume: changing them needs a reason.
TEST(Mixture, TheCountsOfAMixtureAreFixed) {
  const auto mixture = create(
      options({source("a", {{0, 3}}), source("b", {{0, 1}, {3, 4}}), source("c", {{2, 0.5}})}, 5));
  EXPECT_THAT(first(*mixture, 6),
              ElementsAre(Counts{{"a", 4}, {"b", 1}}, Counts{{"a", 4}, {"b", 1}},
                          Counts{{"a", 3}, {"b", 2}}, Counts{{"a", 2}, {"b", 2}, {"c", 1}},
                          Counts{{"a", 2}, {"b", 3}}, Counts{{"a", 2}, {"b", 3}}));
}

TEST(Mixture, BatchesAreFull) {
  const auto mixture = create(options({source("a", {{0, 1}}), source("b", {{0, 1e-8}})}, 13));
  for (std::uint64_t step = 0; step < 100; ++step) EXPECT_EQ(mixture->draws(step).size(), 13U);
}

TEST(Mixture, EarlierSamplesAreCountedAndAnyPositionIsReached) {
  const auto mixture = create(options(
      {source("a", {{0, 1}, {7000, 3}}), source("b", {{0, 1}}), source("c", {{5000, 0.1}})}, 3));
  std::vector<std::uint64_t> sum(3);
  std::vector<StepDraws> in_order;
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    in_order.push_back(mixture->draws(step));
    EXPECT_EQ(in_order.back().before, sum) << step;
    for (std::size_t i = 0; i < 3; ++i) sum[i] += in_order.back().counts[i];
  }
  const auto fresh = create(mixture->options());
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t step = random.below(20'000);
    EXPECT_EQ(fresh->draws(step).counts, in_order[step].counts) << step;
    EXPECT_EQ(fresh->draws(step).before, in_order[step].before) << step;
  }
}

TEST(Mixture, TheOrderOfSourcesDoesNotMatter) {
  std::vector<MixtureSource> sources = {source("b", {{0, 1}}), source("a", {{0, 0.3}}),
                                        source("d", {{5, 2}, {9, 0}}), source("c", {{0, 1}})};
  const auto given = create(options(sources, 3));
  std::ranges::reverse(sources);
  EXPECT_EQ(first(*create(options(sources, 3)), 50), first(*given, 50));
}

// Among them breakpoints of other magnitudes, ramps, and sources that sort before all others.
TEST(Mixture, LaterSourcesAndProportionsChangeNothingBefore) {
  MixtureSource ramping = source("m", {{0, 1}, {1000, 5}});
  ramping.schedule.ramp = true;
  const std::vector<MixtureSource> sources = {ramping, source("k", {{0, 1}}),
                                              source("p", {{30, 2}})};
  const auto before = first(*create(options(sources)), 400);
  const auto with = [&](const auto& change) {
    std::vector<MixtureSource> changed = sources;
    change(changed);
    const auto mixture = create(options(changed));
    EXPECT_EQ(first(*mixture, 400), before);
    return first(*mixture, 2000);
  };
  const auto same = [](auto&) {};
  const auto unchanged = with(same);
  EXPECT_NE(with([](auto& changed) { changed.push_back(source("a", {{400, 1e6}})); }), unchanged);
  EXPECT_NE(with([](auto& changed) { changed.push_back(source("z", {{0, 0}, {400, 1e-3}})); }),
            unchanged);
  EXPECT_NE(with([](auto& changed) { changed[1].schedule.points.push_back({400, 1e-5}); }),
            unchanged);
  EXPECT_NE(with([](auto& changed) { changed[2].schedule.points.push_back({400, 0}); }), unchanged);
  EXPECT_NE(with([](auto& changed) { changed[0].schedule.points.push_back({1500, 9}); }),
            unchanged);
  EXPECT_NE(with([](auto& changed) { changed[1].schedule.end = 400; }), unchanged);
  EXPECT_NE(with([](auto& changed) { changed[0].schedule.end = 400; }), unchanged);
  EXPECT_NE(with([](auto& changed) {
              changed.push_back(source("a", {{0, 0}, {400, 0}, {900, 1}}));
              changed.back().schedule.ramp = true;
            }),
            unchanged);
  EXPECT_EQ(with([](auto& changed) { changed[1].schedule.points.push_back({100, 1}); }), unchanged);
  EXPECT_EQ(with([](auto& changed) { changed.push_back(source("a", {{0, 0}})); }), unchanged);
}

TEST(Mixture, OnlyRatiosOfProportionsMatter) {
  const auto small = create(options({source("a", {{0, 1e-9}}), source("b", {{0, 4e-9}})}));
  const auto large = create(options({source("a", {{0, 2.5e8}}), source("b", {{0, 1e9}})}));
  EXPECT_EQ(first(*small, 100), first(*large, 100));
}

TEST(Mixture, ARampRunsBetweenNormalisedShares) {
  MixtureSource ramp = source("b", {{0, 0}, {10, 1}});
  ramp.schedule.ramp = true;
  const auto mixture = create(options({source("a", {{0, 1}}), ramp}, 1000));
  for (std::uint64_t step = 0; step < 12; ++step) {
    // From 0 to 1/2 within ten steps, then held.
    const auto share = static_cast<double>(std::min<std::uint64_t>(step, 10)) / 20;
    EXPECT_NEAR(static_cast<double>(mixture->draws(step).counts[1]), 1000 * share, 1) << step;
  }
}

TEST(Mixture, RampsThatEndTogetherInNothingKeepTheirShares) {
  MixtureSource a = source("a", {{0, 3}, {10, 0}});
  MixtureSource b = source("b", {{0, 1}, {10, 0}});
  a.schedule.ramp = b.schedule.ramp = true;
  const auto mixture = create(options({a, b, source("c", {{10, 1}})}, 4));
  for (std::uint64_t step = 0; step < 10; ++step) {
    EXPECT_THAT(counts_of(*mixture, step), (Counts{{"a", 3}, {"b", 1}}));
  }
  EXPECT_THAT(counts_of(*mixture, 10), (Counts{{"c", 4}}));
}

TEST(Mixture, ASourceWithoutAProportionGivesNothing) {
  const auto mixture =
      create(options({source("a", {{0, 1}, {4, 0}, {8, 1}}), source("b", {{0, 1}})}, 3));
  for (std::uint64_t step = 4; step < 8; ++step) {
    EXPECT_THAT(counts_of(*mixture, step), (Counts{{"b", 3}}));
  }
}

TEST(Mixture, WithoutProportionsItIsOnePassBySize) {
  const auto mixture =
      create(options({source("a", {}, 0, 90), source("b", {}, 0, 7), source("c", {}, 0, 3)}, 8));
  EXPECT_TRUE(mixture->by_size());
  ASSERT_EQ(mixture->length(), 13U);
  Counts sum;
  for (const Counts& counts : first(*mixture, 13)) {
    for (const auto& [name, count] : counts) sum[name] += count;
  }
  EXPECT_EQ(sum, (Counts{{"a", 90}, {"b", 7}, {"c", 3}}));
  EXPECT_EQ(mixture->draws(12).size(), 4U);
  EXPECT_EQ(mixture->draws(13).size(), 0U);
}

TEST(Mixture, EpochsEndASourceAndTheOthersShareItsProportion) {
  const auto mixture = create(
      options({source("a", {{0, 2}}, 2, 30), source("b", {{0, 1}}), source("c", {{0, 1}})}, 8));
  EXPECT_FALSE(mixture->length());
  std::uint64_t drawn = 0;
  std::optional<std::uint64_t> ended;
  for (std::uint64_t step = 0; step < 40; ++step) {
    const StepDraws draws = mixture->draws(step);
    EXPECT_EQ(draws.size(), 8U);
    drawn += draws.counts[0];
    if (!draws.ended.empty()) {
      EXPECT_FALSE(ended);
      EXPECT_THAT(draws.ended, ElementsAre(0U));
      ended = step;
    }
    EXPECT_TRUE(step <= 16 || draws.counts == std::vector<std::uint64_t>({0, 4, 4})) << step;
  }
  EXPECT_EQ(drawn, 60U);
  EXPECT_EQ(ended, 14U);
}

TEST(Mixture, ItEndsWhenAllSourcesHave) {
  Random random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<MixtureSource> sources;
    std::uint64_t samples = 0;
    for (std::uint64_t i = 0; i <= random.below(6); ++i) {
      const std::uint64_t size = 1 + random.below(50);
      const std::uint64_t epochs = 1 + random.below(3);
      sources.push_back(source(std::string(1, static_cast<char>('a' + i)),
                               {{0, random.uniform() + 1e-3}, {random.below(9) + 1, 1}}, epochs,
                               size));
      sources.back().schedule.ramp = random.below(2) == 0;
      samples += size * epochs;
    }
    const auto mixture = create(options(sources, 1 + random.below(9)));
    const std::uint64_t batch = mixture->options().global_batch_size;
    ASSERT_EQ(mixture->length(), (samples + batch - 1) / batch);
    std::vector<std::uint64_t> drawn(sources.size());
    for (std::uint64_t step = 0; step < *mixture->length(); ++step) {
      const StepDraws draws = mixture->draws(step);
      const bool last = step + 1 == *mixture->length();
      EXPECT_EQ(draws.size(), last ? samples - step * batch : batch);
      EXPECT_EQ(mixture->batch_size(step), draws.size());
      for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] += draws.counts[i];
    }
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_EQ(drawn[i], sources[i].size * sources[i].epochs);
    }
  }
}

// The walk and the formula of its length agree where both apply.
TEST(Mixture, AnEndBeforeALateSourceIsCounted) {
  const auto gap =
      create(options({source("a", {{0, 1}}, 1, 20), source("b", {{100, 1}}, 1, 20)}, 8));
  EXPECT_EQ(gap->length(), 3U);
  EXPECT_EQ(gap->batch_size(2), 4U);
  const auto endless = create(options({source("a", {{0, 1}}, 1, 20), source("b", {{100, 1}})}, 8));
  EXPECT_EQ(endless->length(), 3U);
  const auto fed = create(options({source("a", {{0, 1}}, 1, 20), source("b", {{2, 1}})}, 8));
  EXPECT_FALSE(fed->length());
}

TEST(Mixture, StepsLimitIt) {
  MixtureOptions limited = options({source("a", {{0, 1}}), source("b", {{0, 1}})});
  EXPECT_FALSE(create(limited)->length());
  limited.steps = 70;
  EXPECT_EQ(create(limited)->length(), 70U);
  EXPECT_EQ(create(limited)->draws(70).size(), 0U);
  limited.sources[0].epochs = limited.sources[1].epochs = 1;
  EXPECT_EQ(create(limited)->length(), 25U);
}

TEST(Mixture, TheSeedOfASourceFollowsFromSeedAndName) {
  EXPECT_NE(source_seed(1, "a"), source_seed(1, "b"));
  EXPECT_NE(source_seed(1, "a"), source_seed(2, "a"));
  EXPECT_EQ(source_seed(1, "captions"), 11053940793986496175U);  // a promise, too
}

std::string refusal(MixtureOptions given) {
  const auto made = Mixture::create(std::move(given));
  return made ? "accepted" : made.error().message();
}

TEST(Mixture, RefusesWhatNoBatchCanFollow) {
  const MixtureSource good = source("a", {{0, 1}});
  EXPECT_THAT(refusal(options({})), HasSubstr("1 to 256 sources"));
  EXPECT_THAT(refusal(options({good, good})),
              HasSubstr("source 'a': two sources have this name: rename one"));
  EXPECT_THAT(refusal(options({good, source("b/c", {{0, 1}})})),
              AllOf(HasSubstr("'b/c'"), HasSubstr("rename")));
  EXPECT_THAT(refusal(options({good, source("", {{0, 1}})})), HasSubstr("rename"));
  EXPECT_THAT(refusal(options({good, source("b", {})})),
              HasSubstr("source 'b': it has no proportion, and others have one"));
  EXPECT_THAT(refusal(options({source("a", {{0, -1}})})), HasSubstr("is negative"));
  EXPECT_THAT(refusal(options({source("a", {{0, std::nan("")}})})), HasSubstr("is not a number"));
  EXPECT_THAT(refusal(options({source("a", {{0, std::numeric_limits<double>::infinity()}})})),
              HasSubstr("out of range"));
  EXPECT_THAT(refusal(options({source("a", {{0, 1e-10}})})), HasSubstr("out of range"));
  EXPECT_THAT(refusal(options({source("a", {{0, 1}, {5, 1}, {5, 2}})})),
              HasSubstr("step 5 behind step 5"));
  EXPECT_THAT(refusal(options({source("a", {{0, 0}})})),
              HasSubstr("no source has a proportion above 0 at step 0"));
  EXPECT_THAT(refusal(options({source("a", {{3, 1}})})), HasSubstr("at step 0"));
  EXPECT_THAT(refusal(options({source("a", {{0, 1}, {9, 0}})})), HasSubstr("at step 9"));
  EXPECT_THAT(refusal(options({good, source("b", {{0, 1}, {9, 0}}), source("c", {{0, 1e-9}})})),
              "accepted");
  EXPECT_THAT(refusal(options({source("a", {{0, 1e9}}), source("c", {{0, 1e-9}})})),
              AllOf(HasSubstr("source 'c'"), HasSubstr("1e-10 of the sum")));
  EXPECT_THAT(refusal(options({source("a", {{0, 1}}, 0, 0)})), HasSubstr("no usable sample"));
  EXPECT_THAT(refusal(options({source("a", {{0, 1}}, std::uint64_t{1} << 40, 1 << 20)})),
              HasSubstr("fewer epochs"));
  EXPECT_THAT(refusal(options({good}, 0)), HasSubstr("global_batch_size = 0"));
}

}  // namespace
}  // namespace isocost
