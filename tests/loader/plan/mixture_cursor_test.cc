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

// With shuffle = blocks, sources of these shards.
const std::vector<std::uint64_t> kShardsOfA = {5, 9, 1, 0, 15};  // 30 samples
const std::vector<std::uint64_t> kShardsOfB = {4, 4, 3};         // 11 samples

MixtureCursor in_blocks(MixtureOptions given, std::uint64_t window_shards) {
  given.shuffle_shards = window_shards;
  return {Mixture::create(given).value(),
          {0, 1000},
          {std::make_shared<const BlockOrder>(kShardsOfA, window_shards),
           std::make_shared<const BlockOrder>(kShardsOfB, window_shards)}};
}

std::vector<std::uint64_t> counts_of(const MixtureCursor& cursor, std::uint64_t steps,
                                     std::uint64_t epoch = 0) {
  std::vector<std::uint64_t> counts(1011);
  for (const SampleId id : drawn(cursor, steps, epoch)) ++counts.at(id);
  return counts;
}

TEST(MixtureCursor, InBlocksEachPassOfASourceHoldsEverySampleOnce) {
  const MixtureOptions given = options({source("a", 30, {{0, 1}}), source("b", 11, {{0, 1}})}, 2);
  for (const std::uint64_t window_shards : {1U, 2U, 16U}) {
    const MixtureCursor mixed = in_blocks(given, window_shards);
    const auto three_of_b = counts_of(mixed, 33);
    for (SampleId id = 1000; id < 1011; ++id) EXPECT_EQ(three_of_b[id], 3U) << id;
    const auto two_of_a = counts_of(mixed, 60);
    for (SampleId id = 0; id < 30; ++id) EXPECT_EQ(two_of_a[id], 2U) << id;
  }
}

TEST(MixtureCursor, InBlocksASourceIsDrawnWindowByWindowBesideAnyOther) {
  const auto of_b = [](const MixtureCursor& from, std::uint64_t steps) {
    std::vector<SampleId> ids;
    for (const SampleId id : drawn(from, steps)) {
      if (id >= 1000) ids.push_back(id);
    }
    return ids;
  };
  const MixtureOptions equal = options({source("a", 30, {{0, 1}}), source("b", 11, {{0, 1}})}, 2);
  const std::vector<SampleId> drawn_of_b = of_b(in_blocks(equal, 1), 11);
  // One sample of b a step: its shards follow one another.
  std::vector<std::size_t> shards;
  for (const SampleId id : drawn_of_b) {
    const std::size_t shard = id < 1004 ? 0 : id < 1008 ? 1 : 2;
    if (shards.empty() || shards.back() != shard) shards.push_back(shard);
  }
  EXPECT_THAT(shards, testing::UnorderedElementsAre(0, 1, 2));
  const MixtureOptions other = options({source("a", 30, {{0, 2}}), source("b", 11, {{0, 1}})}, 3);
  EXPECT_EQ(of_b(in_blocks(other, 1), 11), drawn_of_b);
  MixtureOptions reseeded = equal;
  reseeded.seed = 8;
  EXPECT_NE(of_b(in_blocks(reseeded, 1), 11), drawn_of_b);
  EXPECT_NE(of_b(in_blocks(equal, 2), 11), drawn_of_b);
}

TEST(MixtureCursor, InBlocksAnEpochBySizeHoldsEverySampleOnceAndABatchNeedsNoOther) {
  const MixtureOptions given = options({source("a", 30, {}), source("b", 11, {})});
  const MixtureCursor all = in_blocks(given, 2);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto ids = drawn(all, 11, epoch);
    EXPECT_EQ(ids.size(), 41U);
    EXPECT_EQ(std::set<SampleId>(ids.begin(), ids.end()).size(), 41U);
    for (const std::uint64_t step : {7U, 0U, 10U}) {
      EXPECT_EQ(in_blocks(given, 2).batch(epoch, step), all.batch(epoch, step));
    }
  }
  EXPECT_NE(drawn(all, 11, 0), drawn(all, 11, 1));
}

TEST(MixtureCursor, AStateOfBlocksNamesWhatDiffers) {
  const MixtureOptions given = options({source("a", 30, {{0, 1}}), source("b", 11, {{0, 2}})});
  const MixtureCursor saved = in_blocks(given, 2);
  const std::string text = saved.saved().value();
  EXPECT_THAT(text, testing::HasSubstr("\"shuffle_shards\":2"));
  const MixtureOptions state = mixture_from_json(text).value();
  MixtureOptions present = given;
  present.shuffle_shards = 2;
  const MixtureCursor going_on(continued_mixture(state, present, 10).value(), {0, 1000},
                               {std::make_shared<const BlockOrder>(kShardsOfA, 2),
                                std::make_shared<const BlockOrder>(kShardsOfB, 2)});
  EXPECT_EQ(going_on.batch(0, 12), saved.batch(0, 12));
  EXPECT_EQ(going_on.fingerprint(), saved.fingerprint());
  const auto refusal = [&] {
    const auto refused = continued_mixture(state, present, 10);
    return refused ? "" : refused.error().message();
  };
  present.shuffle_shards = 3;
  EXPECT_THAT(refusal(), testing::HasSubstr("shuffle_shards is 3, and was 2"));
  EXPECT_NE(in_blocks(given, 3).fingerprint(), saved.fingerprint());
  present.shuffle_shards = 0;
  EXPECT_THAT(refusal(), testing::HasSubstr("shuffle is global, and was blocks"));
  EXPECT_NE(cursor(given).fingerprint(), saved.fingerprint());
  present.shuffled = false;
  EXPECT_THAT(refusal(), testing::HasSubstr("shuffle is off, and was blocks"));
  // The other orders are saved as they were.
  EXPECT_THAT(cursor(given).saved().value(), testing::Not(testing::HasSubstr("shuffle_shards")));
}

}  // namespace
}  // namespace isocost
