#include "loader/plan/block_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/random.h"
#include "loader/plan/cursor.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

using Counts = std::vector<std::uint64_t>;

CursorOptions options(const Counts& samples, std::uint64_t window_shards, std::uint64_t batch = 8) {
  CursorOptions options;
  options.seed = 7;
  options.size = std::accumulate(samples.begin(), samples.end(), std::uint64_t{0});
  options.global_batch_size = batch;
  options.shuffle = ShufflePolicy::kBlocks;
  options.blocks = std::make_shared<const BlockOrder>(samples, window_shards);
  return options;
}

std::vector<SampleId> epoch_of(const Cursor& cursor, std::uint64_t epoch) {
  std::vector<SampleId> ids;
  for (std::uint64_t step = 0; step < cursor.steps(epoch); ++step) {
    const auto batch = cursor.batch(epoch, step);
    ids.insert(ids.end(), batch.begin(), batch.end());
  }
  return ids;
}

std::vector<SampleId> sorted(std::vector<SampleId> ids) {
  std::ranges::sort(ids);
  return ids;
}

std::vector<SampleId> all_of(std::uint64_t size) {
  std::vector<SampleId> ids(size);
  std::iota(ids.begin(), ids.end(), SampleId{0});
  return ids;
}

// Returns the number of the shard that each sample lies in.
std::vector<std::size_t> shards_of(const std::vector<SampleId>& ids, const Counts& samples) {
  std::vector<std::size_t> shard_of_id;
  for (std::size_t shard = 0; shard < samples.size(); ++shard) {
    shard_of_id.insert(shard_of_id.end(), samples[shard], shard);
  }
  std::vector<std::size_t> shards;
  shards.reserve(ids.size());
  for (const SampleId id : ids) shards.push_back(shard_of_id.at(id));
  return shards;
}

const std::vector<Counts>& data_sets() {
  static const std::vector<Counts> sets = {
      {1},
      {5},
      {0, 3, 0},
      {1, 1, 1, 1},
      {7, 1, 0, 0, 12, 3, 300, 1, 2},
      {16, 16, 16, 16, 16, 16, 16},
      {0, 0, 100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 40},
  };
  return sets;
}

TEST(BlockOrder, AnEpochHoldsEverySampleOnce) {
  for (const Counts& samples : data_sets()) {
    for (const std::uint64_t window_shards : {1U, 2U, 3U, 7U, 16U, 1'000'000U}) {
      const Cursor cursor(options(samples, window_shards));
      const std::uint64_t size = std::accumulate(samples.begin(), samples.end(), std::uint64_t{0});
      for (const std::uint64_t epoch : {0U, 1U, 5U}) {
        EXPECT_EQ(sorted(epoch_of(cursor, epoch)), all_of(size))
            << testing::PrintToString(samples) << ", " << window_shards;
      }
    }
  }
}

// Also the last window, which has fewer shards than the others, is one.
TEST(BlockOrder, EachWindowHoldsTheSamplesOfItsShards) {
  const Counts samples = {7, 1, 0, 12, 3, 30, 1, 2, 0, 9, 4};  // nine with samples
  for (const std::uint64_t window_shards : {1U, 2U, 4U, 5U, 9U, 20U}) {
    const Cursor cursor(options(samples, window_shards));
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      const std::vector<std::size_t> shards = shards_of(epoch_of(cursor, epoch), samples);
      std::set<std::size_t> done;
      std::size_t windows = 0;
      for (std::size_t begin = 0; begin < shards.size(); ++windows) {
        std::set<std::size_t> window;
        std::uint64_t size = 0;
        for (std::size_t i = begin;
             i < shards.size() && (window.size() < window_shards || i < begin + size); ++i) {
          if (window.insert(shards[i]).second) size += samples[shards[i]];
        }
        for (std::size_t i = begin; i < begin + size; ++i) EXPECT_TRUE(window.contains(shards[i]));
        for (const std::size_t shard : window) EXPECT_TRUE(done.insert(shard).second) << shard;
        EXPECT_TRUE(window.size() == window_shards || begin + size == shards.size());
        begin += size;
      }
      EXPECT_EQ(windows, (9 + std::min<std::uint64_t>(window_shards, 9) - 1) /
                             std::min<std::uint64_t>(window_shards, 9));
      EXPECT_EQ(done.size(), 9U);
    }
  }
}

// A seed's order is a promise to those who resume or compare runs: changing it needs a reason.
TEST(BlockOrder, TheOrderOfASeedIsFixed) {
  const Counts samples = {3, 2, 4, 0, 1};
  EXPECT_THAT(epoch_of(Cursor(options(samples, 2, 16)), 0),
              ElementsAre(3, 2, 1, 0, 4, 8, 5, 6, 7, 9));
  EXPECT_THAT(epoch_of(Cursor(options(samples, 2, 16)), 1),
              ElementsAre(9, 0, 2, 1, 7, 5, 8, 3, 6, 4));
  EXPECT_THAT(epoch_of(Cursor(options(samples, 9, 16)), 0),
              ElementsAre(3, 6, 5, 7, 4, 1, 2, 9, 0, 8));
}

TEST(BlockOrder, EpochsAndSeedsDiffer) {
  const Counts samples(40, 10);
  CursorOptions given = options(samples, 4);
  const std::vector<SampleId> first = epoch_of(Cursor(given), 0);
  const std::vector<SampleId> second = epoch_of(Cursor(given), 1);
  EXPECT_NE(first, second);
  // The windows are others, too, not only what comes first in them.
  std::vector<std::size_t> of_first = shards_of(first, samples);
  std::vector<std::size_t> of_second = shards_of(second, samples);
  EXPECT_NE(std::set<std::size_t>(of_first.begin(), of_first.begin() + 40),
            std::set<std::size_t>(of_second.begin(), of_second.begin() + 40));
  given.seed = 8;
  EXPECT_NE(epoch_of(Cursor(given), 0), first);
  EXPECT_NE(epoch_of(Cursor(given), 0), second);
  given.shuffle = ShufflePolicy::kGlobal;
  EXPECT_NE(epoch_of(Cursor(given), 0), first);
}

TEST(BlockOrder, ABatchAloneIsThatOfAWalk) {
  const Counts samples = {7, 1, 0, 12, 3, 30, 1, 2, 0, 9, 4, 100, 1, 1, 5};
  for (const TailPolicy tail : {TailPolicy::kDeliver, TailPolicy::kDrop, TailPolicy::kCarry}) {
    CursorOptions given = options(samples, 3, 10);
    given.tail = tail;
    given.epochs = 4;
    const Cursor walking(given);
    std::vector<std::vector<SampleId>> walked;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::uint64_t step = 0; step < walking.steps(epoch); ++step) {
        places.emplace_back(epoch, step);
        walked.push_back(walking.batch(epoch, step));
      }
    }
    Random random(5);
    for (int i = 0; i < 100; ++i) {
      const std::size_t place = random.below(places.size());
      // A cursor of its own, and one that has drawn others before.
      CursorOptions alone = given;
      alone.blocks = std::make_shared<const BlockOrder>(samples, 3);
      EXPECT_EQ(Cursor(alone).batch(places[place].first, places[place].second), walked[place]);
      EXPECT_EQ(walking.batch(places[place].first, places[place].second), walked[place]);
    }
  }
}

TEST(BlockOrder, BatchesOfAnySizeCutTheSameOrder) {
  const Counts samples = {7, 1, 12, 3, 30, 1, 2, 9, 4};
  const std::vector<SampleId> whole = epoch_of(Cursor(options(samples, 2, 1000)), 3);
  for (const std::uint64_t batch : {1U, 2U, 5U, 16U, 69U}) {
    EXPECT_EQ(epoch_of(Cursor(options(samples, 2, batch)), 3), whole) << batch;
  }
}

TEST(BlockOrder, TailsKeepWhatTheyPromise) {
  const Counts samples = {4, 0, 9, 1, 3};
  CursorOptions given = options(samples, 2, 5);
  given.tail = TailPolicy::kDrop;
  EXPECT_EQ(epoch_of(Cursor(given), 0).size(), 15U);
  EXPECT_EQ(Cursor(given).dropped(0), 2U);
  for (const std::uint64_t batch : {5U, 17U, 40U}) {
    CursorOptions carrying = options(samples, 2, batch);
    carrying.tail = TailPolicy::kCarry;
    carrying.epochs = 9;
    std::vector<std::uint64_t> counts(17);
    for (std::uint64_t epoch = 0; epoch < 9; ++epoch) {
      for (const SampleId id : epoch_of(Cursor(carrying), epoch)) ++counts.at(id);
    }
    EXPECT_THAT(counts, testing::Each(9U)) << batch;
  }
  // A carried sample is one that the epoch before had left.
  CursorOptions carrying = options(samples, 2, 5);
  carrying.tail = TailPolicy::kCarry;
  carrying.epochs = 2;
  CursorOptions delivering = options(samples, 2, 5);
  const std::vector<SampleId> left = Cursor(delivering).batch(0, 3);
  const std::vector<SampleId> next = Cursor(delivering).batch(1, 0);
  const std::vector<SampleId> carried = Cursor(carrying).batch(1, 0);
  EXPECT_THAT(carried, ElementsAreArray({left[0], left[1], next[0], next[1], next[2]}));
}

TEST(BlockOrder, LimitsAndSkippedStepsMoveNoSamples) {
  const Counts samples = {7, 1, 12, 3, 30, 1, 2, 9, 4};
  CursorOptions given = options(samples, 3, 8);
  const Cursor whole(given);
  given.max_steps = 6;
  given.skipped = SkippedSteps::parse({"2-3"}).value();
  const Cursor cut(given);
  ASSERT_EQ(cut.steps(1), 4U);
  for (std::uint64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(cut.batch(1, step), whole.batch(1, step < 2 ? step : step + 2));
  }
  EXPECT_EQ(cut.fingerprint(3), whole.fingerprint(3));
}

TEST(BlockOrder, AFingerprintTellsTheOrder) {
  const Counts samples = {7, 1, 12, 3, 30};
  const std::uint64_t own = Cursor(options(samples, 2)).fingerprint(1);
  std::set<std::uint64_t> all = {own};
  const auto differs = [&](CursorOptions other) {
    EXPECT_TRUE(all.insert(Cursor(other).fingerprint(1)).second);
  };
  differs(options(samples, 1));
  differs(options(samples, 3));
  differs(options({7, 1, 12, 30, 3}, 2));  // the same size, and other shards
  differs(options({8, 12, 3, 30}, 2));
  CursorOptions other = options(samples, 2);
  other.seed = 8;
  differs(other);
  other = options(samples, 2);
  other.shuffle = ShufflePolicy::kGlobal;
  differs(other);
  other.shuffle = ShufflePolicy::kOff;
  differs(other);
  // Neither shards without samples nor a window beyond all shards change a sample.
  EXPECT_EQ(Cursor(options({0, 7, 1, 12, 0, 3, 30}, 2)).fingerprint(1), own);
  EXPECT_EQ(epoch_of(Cursor(options({0, 7, 1, 12, 0, 3, 30}, 2)), 0),
            epoch_of(Cursor(options(samples, 2)), 0));
  EXPECT_EQ(Cursor(options(samples, 5)).fingerprint(1),
            Cursor(options(samples, 99)).fingerprint(1));
  EXPECT_EQ(epoch_of(Cursor(options(samples, 5)), 0), epoch_of(Cursor(options(samples, 99)), 0));
}

// Saved states of the other orders must hold what they held.
TEST(BlockOrder, TheOtherOrdersHaveTheFingerprintsOfBefore) {
  CursorOptions other = options({7, 1, 12, 3, 30}, 2);
  other.shuffle = ShufflePolicy::kGlobal;
  EXPECT_EQ(Cursor(other).fingerprint(1), 5432212744561611551ULL);
  other.shuffle = ShufflePolicy::kOff;
  EXPECT_EQ(Cursor(other).fingerprint(1), 720559417031435833ULL);
}

// Chi-square of which shard comes at which place, and of where a sample lands in a window. 1 % of
// it at 16 degrees of freedom is 32; 60 has a chance of about 5e-7.
TEST(BlockOrder, PlacesOfShardsAndSamplesAreUniform) {
  constexpr std::uint64_t kEpochs = 5000;
  const auto chi_square = [](const std::array<std::array<double, 5>, 5>& counts) {
    double sum = 0;
    for (const auto& row : counts) {
      for (const double count : row) {
        constexpr double kExpected = kEpochs / 5.0;
        sum += (count - kExpected) * (count - kExpected) / kExpected;
      }
    }
    return sum;
  };
  std::array<std::array<double, 5>, 5> shards{};
  std::array<std::array<double, 5>, 5> samples{};
  const Cursor of_shards(options({1, 1, 1, 1, 1}, 1));
  const Cursor of_samples(options({2, 3}, 2));
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<SampleId> by_shard = of_shards.batch(epoch, 0);
    const std::vector<SampleId> by_sample = of_samples.batch(epoch, 0);
    for (std::size_t i = 0; i < 5; ++i) {
      ++shards.at(i).at(by_shard[i]);
      ++samples.at(i).at(by_sample[i]);
    }
  }
  EXPECT_LT(chi_square(shards), 60);
  EXPECT_LT(chi_square(samples), 60);
}

// 10^9 samples: whatever took memory or time for each of them would be seen. Tests assert no
// speed; the limits of this one are those of an epoch that is walked through (minutes).
TEST(BlockOrder, AManyShardedEpochBeginsAnywhereWithoutTheSamplesBefore) {
  const Counts samples(100'000, 10'000);
  CursorOptions given = options(samples, 16, 256);
  const Cursor cursor(given);
  const std::uint64_t last = cursor.steps(0) - 1;
  std::set<SampleId> seen;
  for (const std::uint64_t step : {last, std::uint64_t{0}, last / 2}) {
    const std::vector<SampleId> ids = cursor.batch(1, step);
    std::set<std::uint64_t> shards;
    for (const SampleId id : ids) {
      EXPECT_LT(id, given.size);
      EXPECT_TRUE(seen.insert(id).second);
      shards.insert(id / 10'000);
    }
    EXPECT_LE(shards.size(), 32U);  // of two windows at most
    EXPECT_GT(shards.size(), 8U);
  }
  EXPECT_EQ(seen.size(), 2 * 256U + cursor.batch(1, last).size());
}

// Two epochs are kept; threads that ask for others by turns get what one alone gets.
TEST(BlockOrder, ThreadsDrawTheSame) {
  const Counts samples(50, 20);
  const Cursor cursor(options(samples, 4, 100));
  std::vector<std::vector<SampleId>> expected;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    expected.push_back(Cursor(options(samples, 4, 100)).batch(epoch, 3));
  }
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t epoch = (i + thread) % 5;
        EXPECT_EQ(cursor.batch(epoch, 3), expected[epoch]);
      }
    });
  }
}

}  // namespace
}  // namespace isocost
