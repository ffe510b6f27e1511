#include "loader/plan/mixture_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "loader/plan/cursor.h"
#include "loader/plan/mixture/mixture_edit.h"
#include "loader/plan/mixture/saved_mixture.h"

namespace isocost {
namespace {

using ::testing::ElementsAre;

MixtureSource source(std::string name, std::uint64_t size, std::vector<Breakpoint> points,
                     std::uint64_t epochs = 0) {
  MixtureSource made;
  made.name = std::move(name);
  made.size = size;
  made.schedule.points = std::move(points);
  made.epochs = epochs;
  return made;
}

MixtureOptions options(std::vector<MixtureSource> sources, std::uint64_t batch = 4) {
  MixtureOptions options;
  options.sources = std::move(sources);
  options.seed = 7;
  options.global_batch_size = batch;
  return options;
}

MixtureCursor cursor(const MixtureOptions& given) {
  auto mixture = Mixture::create(given).value();
  std::vector<SampleId> first;
  for (std::size_t i = 0; i < mixture->sources().size(); ++i) first.push_back(i * 1000);
  return {std::move(mixture), std::move(first)};
}

// The samples of a source in the order of its draws, if its batches hold no other source's.
std::vector<SampleId> drawn(const MixtureCursor& cursor, std::uint64_t steps,
                            std::uint64_t epoch = 0) {
  std::vector<SampleId> ids;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto batch = cursor.batch(epoch, step);
    ids.insert(ids.end(), batch.begin(), batch.end());
  }
  return ids;
}

// The samples of a seed are a promise to those who resume: changing them needs a reason.
TEST(MixtureCursor, TheSamplesOfASeedAreFixed) {
  const MixtureCursor mixed =
      cursor(options({source("a", 9, {{0, 1}}), source("b", 5, {{0, 2}})}, 6));
  EXPECT_THAT(mixed.batch(0, 0), ElementsAre(1000, 1004, 1003, 1002, 8, 0));
  EXPECT_THAT(mixed.batch(0, 1), ElementsAre(1003, 1001, 2, 1004, 1, 1000));
}

TEST(MixtureCursor, EachPassOfASourceHoldsEverySampleOnce) {
  const MixtureCursor mixed =
      cursor(options({source("a", 9, {{0, 1}}), source("b", 14, {{0, 2}})}, 3));
  std::map<SampleId, std::uint64_t> counts;
  for (std::uint64_t step = 0; step < 9 * 5; ++step) {
    for (const SampleId id : mixed.batch(0, step)) {
      ++counts[id];
      // No sample comes again before its source has given all others.
      const std::uint64_t passes = id < 1000 ? (step + 9) / 9 : (2 * step + 15) / 14;
      EXPECT_LE(counts[id], passes) << step << ": " << id;
    }
  }
  for (SampleId id = 0; id < 9; ++id) EXPECT_EQ(counts[id], 5U);
}

TEST(MixtureCursor, ASourcesOrderIsTheSameBesideAnyOther) {
  const auto of_a = [](const MixtureCursor& from, std::uint64_t steps) {
    std::multiset<SampleId> ids;
    for (const SampleId id : drawn(from, steps)) {
      if (id < 1000) ids.insert(id);
    }
    return ids;
  };
  const MixtureCursor alone = cursor(options({source("a", 100, {{0, 1}})}, 1));
  const MixtureCursor beside =
      cursor(options({source("a", 100, {{0, 1}}), source("b", 50, {{0, 3}})}, 4));
  EXPECT_EQ(of_a(alone, 57), of_a(beside, 57));
}

TEST(MixtureCursor, WithoutShuffleSamplesComeInOrder) {
  MixtureOptions plain = options({source("a", 3, {{0, 1}}), source("b", 5, {{0, 1}})});
  plain.shuffled = false;
  const MixtureCursor mixed = cursor(plain);
  EXPECT_THAT(mixed.batch(0, 0), ElementsAre(0, 1, 1000, 1001));
  EXPECT_THAT(mixed.batch(0, 1), ElementsAre(2, 0, 1002, 1003));
  EXPECT_THAT(mixed.batch(0, 2), ElementsAre(1, 2, 1004, 1000));
}

TEST(MixtureCursor, WithoutProportionsEachEpochHoldsEverySampleOnceInAnotherOrder) {
  const MixtureCursor all = cursor(options({source("a", 30, {}), source("b", 11, {})}));
  ASSERT_EQ(all.steps(), 11U);
  EXPECT_EQ(all.samples(), 41U);
  std::vector<std::vector<SampleId>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<SampleId> ids = drawn(all, 11, epoch);
    epochs.push_back(ids);
    std::ranges::sort(ids);
    ASSERT_EQ(ids.size(), 41U);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(MixtureCursor, StepsThatAreLeftOutMoveNoSamplesOfOthers) {
  MixtureOptions given = options({source("a", 30, {{0, 1}}), source("b", 11, {{0, 2}, {9, 1}})});
  given.steps = 20;
  const MixtureCursor whole = cursor(given);
  given.skipped = SkippedSteps::parse({"3-5", "19-30"}).value();
  const MixtureCursor skipping = cursor(given);
  EXPECT_EQ(skipping.steps(), 16U);
  EXPECT_EQ(skipping.samples(), 16 * 4U);
  for (std::uint64_t step = 0; step < 16; ++step) {
    EXPECT_EQ(skipping.batch(0, step), whole.batch(0, step < 3 ? step : step + 3)) << step;
  }
  EXPECT_TRUE(skipping.batch(0, 16).empty());
}

TEST(MixtureCursor, NamesASourceThatHasEnded) {
  const MixtureCursor mixed =
      cursor(options({source("a", 10, {{0, 1}}, 1), source("b", 11, {{0, 1}})}));
  std::map<std::uint64_t, std::vector<std::string>> ended;
  for (std::uint64_t step = 0; step < 10; ++step) {
    if (auto names = mixed.ended_with(step); !names.empty()) ended[step] = names;
  }
  EXPECT_EQ(ended, (std::map<std::uint64_t, std::vector<std::string>>{{4, {"a"}}}));
}

TEST(MixtureCursor, ACursorDrawsFromIt) {
  MixtureOptions given = options({source("a", 10, {{0, 1}}), source("b", 11, {{0, 1}})});
  CursorOptions of_mixture;
  of_mixture.mixture = std::make_shared<const MixtureCursor>(cursor(given));
  const Cursor endless(of_mixture);
  EXPECT_EQ(endless.steps(0), Cursor::kEndless);
  EXPECT_EQ(endless.batch(0, 12345), of_mixture.mixture->batch(0, 12345));
  EXPECT_EQ(endless.fingerprint(1), of_mixture.mixture->fingerprint());
  given.steps = 9;
  of_mixture.mixture = std::make_shared<const MixtureCursor>(cursor(given));
  const Cursor limited(of_mixture);
  EXPECT_EQ(limited.steps(0), 9U);
  EXPECT_TRUE(limited.batch(0, 9).empty());
  EXPECT_EQ(limited.dropped(0), 0U);
}

TEST(Cursor, SkippedStepsOfOneDataSetMoveNoOtherSamples) {
  CursorOptions options;
  options.size = 103;
  options.global_batch_size = 10;
  const Cursor whole(options);
  options.skipped = SkippedSteps::parse({"2-3", "10"}).value();
  const Cursor skipping(options);
  EXPECT_EQ(skipping.positions(0), 11U);
  ASSERT_EQ(skipping.steps(0), 8U);
  EXPECT_EQ(skipping.skipped(0), 23U);  // the last of them has three samples
  for (std::uint64_t step = 0; step < 8; ++step) {
    EXPECT_EQ(skipping.batch(1, step), whole.batch(1, step < 2 ? step : step + 2));
  }
  EXPECT_TRUE(skipping.batch(0, 8).empty());
  EXPECT_EQ(skipping.fingerprint(7), whole.fingerprint(7));  // compared by continued_mixture
  EXPECT_EQ(whole.skipped(0), 0U);
}

TEST(MixtureCursor, AStateContinuesWithAnEditedMixture) {
  const MixtureOptions before = options({source("a", 30, {{0, 1}}), source("b", 11, {{0, 2}})});
  const MixtureCursor saved = cursor(before);
  MixtureOptions edited = before;
  edited.sources[1].schedule.points.push_back({10, 1});
  const MixtureOptions state = mixture_from_json(saved.saved().value()).value();
  const auto mixture = continued_mixture(state, edited, 10).value();
  const MixtureCursor continued(mixture, {0, 1000});
  for (std::uint64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(continued.batch(0, step), saved.batch(0, step));
  }
  EXPECT_NE(continued.batch(0, 11), saved.batch(0, 11));
  EXPECT_EQ(continued.fingerprint(), saved.fingerprint());  // of what no edit may change
  EXPECT_FALSE(continued_mixture(state, edited, 20));
}

}  // namespace
}  // namespace isocost
