#include "loader/plan/cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace isocost {
namespace {

CursorOptions options(std::uint64_t size, std::uint64_t batch,
                      TailPolicy tail = TailPolicy::kDeliver) {
  CursorOptions options;
  options.seed = 7;
  options.size = size;
  options.global_batch_size = batch;
  options.tail = tail;
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

std::vector<SampleId> all_of(std::uint64_t size) {
  std::vector<SampleId> ids(size);
  std::iota(ids.begin(), ids.end(), SampleId{0});
  return ids;
}

std::vector<SampleId> sorted(std::vector<SampleId> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Cursor, AnEpochHoldsEverySampleOnce) {
  for (const std::uint64_t size : {1U, 2U, 3U, 15U, 16U, 17U, 255U, 256U, 257U, 1000U, 4097U}) {
    const Cursor cursor(options(size, 16));
    EXPECT_EQ(sorted(epoch_of(cursor, 3)), all_of(size)) << size;
  }
}

TEST(Cursor, TheOrderDependsOnSeedEpochAndSizeAlone) {
  const Cursor cursor(options(1000, 10));
  CursorOptions other = options(1000, 40);
  other.epochs = 9;
  EXPECT_EQ(epoch_of(Cursor(other), 2), epoch_of(cursor, 2));
  EXPECT_NE(epoch_of(cursor, 1), epoch_of(cursor, 2));
  other.seed = 8;
  EXPECT_NE(epoch_of(Cursor(other), 2), epoch_of(cursor, 2));
}

// A seed's order is a promise to those who resume or compare runs: changing it needs a reason.
TEST(Cursor, TheOrderOfASeedIsFixed) {
  EXPECT_EQ(epoch_of(Cursor(options(10, 10)), 0),
            std::vector<SampleId>({8, 6, 1, 5, 0, 2, 4, 7, 3, 9}));
}

TEST(Cursor, WithoutShuffleTheOrderIsTheShards) {
  CursorOptions plain = options(11, 4);
  plain.shuffle = ShufflePolicy::kOff;
  EXPECT_EQ(epoch_of(Cursor(plain), 5), all_of(11));
}

TEST(Cursor, AnyBatchIsComputedDirectly) {
  CursorOptions huge = options(std::uint64_t{1} << 40, 64);
  const Cursor cursor(huge);
  const std::uint64_t last = cursor.steps(0) - 1;
  std::set<SampleId> seen;
  for (const std::uint64_t step : {std::uint64_t{0}, last / 2, last}) {
    for (const SampleId id : cursor.batch(0, step)) {
      EXPECT_LT(id, huge.size);
      EXPECT_TRUE(seen.insert(id).second);
    }
  }
  EXPECT_EQ(seen.size(), 3 * 64U);
}

// Chi-square of where each sample lands over many epochs, for a range so short that weak rounds
// would show. 5 % of it at 24 degrees of freedom is 36; 80 has a chance of about 1e-7.
TEST(Cursor, PositionsOfASampleAreUniform) {
  constexpr std::uint64_t kSize = 5;
  constexpr std::uint64_t kEpochs = 10000;
  const Cursor cursor(options(kSize, kSize));
  std::array<std::array<double, kSize>, kSize> counts{};
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto ids = cursor.batch(epoch, 0);
    for (std::size_t i = 0; i < kSize; ++i) ++counts.at(i).at(ids[i]);
  }
  constexpr double kExpected = static_cast<double>(kEpochs) / kSize;
  double chi_square = 0;
  for (const auto& row : counts) {
    for (const double count : row) {
      chi_square += (count - kExpected) * (count - kExpected) / kExpected;
    }
  }
  EXPECT_LT(chi_square, 80);
}

// Neighbours in the shard must not stay neighbours: rank correlation of position and id.
TEST(Cursor, OrderAndPositionAreUncorrelated) {
  constexpr std::uint64_t kSize = 10007;
  const auto ids = epoch_of(Cursor(options(kSize, 100)), 0);
  double sum = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    const double position = static_cast<double>(i) - (kSize - 1) / 2.0;
    sum += position * (static_cast<double>(ids[i]) - (kSize - 1) / 2.0);
  }
  const double variance = (static_cast<double>(kSize) * kSize - 1) / 12.0 * kSize;
  EXPECT_LT(std::abs(sum / variance), 0.04);
}

TEST(Cursor, DeliverGivesASmallerLastBatch) {
  const Cursor cursor(options(10, 4));
  EXPECT_EQ(cursor.steps(0), 3U);
  EXPECT_EQ(cursor.batch(0, 2).size(), 2U);
  EXPECT_EQ(cursor.dropped(0), 0U);
  EXPECT_TRUE(cursor.batch(0, 3).empty());
}

TEST(Cursor, DropLeavesTheRestOutAndCountsIt) {
  const Cursor cursor(options(10, 4, TailPolicy::kDrop));
  EXPECT_EQ(cursor.steps(0), 2U);
  EXPECT_EQ(epoch_of(cursor, 0).size(), 8U);
  EXPECT_EQ(cursor.dropped(0), 2U);
  EXPECT_EQ(Cursor(options(3, 4, TailPolicy::kDrop)).steps(0), 0U);
}

TEST(Cursor, CarryMovesTheRestInFrontOfTheNextEpoch) {
  CursorOptions carrying = options(10, 4, TailPolicy::kCarry);
  carrying.epochs = 3;
  carrying.shuffle = ShufflePolicy::kOff;
  const Cursor cursor(carrying);
  EXPECT_EQ(cursor.steps(0), 2U);
  EXPECT_EQ(cursor.steps(1), 3U);
  EXPECT_EQ(cursor.batch(1, 0), std::vector<SampleId>({8, 9, 0, 1}));
  EXPECT_EQ(cursor.steps(2), 3U);
  EXPECT_EQ(cursor.batch(2, 2), std::vector<SampleId>({8, 9}));
}

TEST(Cursor, CarryDeliversEverySampleOncePerEpoch) {
  for (const std::uint64_t size : {1U, 3U, 10U, 16U}) {
    CursorOptions carrying = options(size, 7, TailPolicy::kCarry);
    carrying.epochs = 9;
    const Cursor cursor(carrying);
    std::map<SampleId, std::uint64_t> counts;
    for (std::uint64_t epoch = 0; epoch < 9; ++epoch) {
      for (const SampleId id : epoch_of(cursor, epoch)) ++counts[id];
      EXPECT_EQ(cursor.dropped(epoch), 0U);
    }
    EXPECT_EQ(counts.size(), size);
    for (const auto& [id, count] : counts) EXPECT_EQ(count, 9U) << size << ": " << id;
  }
}

TEST(Cursor, ALimitOfStepsCutsTheEpochAndKeepsItsSamples) {
  CursorOptions limited = options(25, 4);
  limited.max_steps = 3;
  const Cursor all(options(25, 4));
  const Cursor cut(limited);
  EXPECT_EQ(cut.steps(0), 3U);
  for (std::uint64_t step = 0; step < 3; ++step) EXPECT_EQ(cut.batch(0, step), all.batch(0, step));
  EXPECT_TRUE(cut.batch(0, 3).empty());
  EXPECT_EQ(cut.fingerprint(1), all.fingerprint(1));  // a state also fits without the limit
  limited.max_steps = 100;
  EXPECT_EQ(Cursor(limited).steps(0), all.steps(0));
}

TEST(Cursor, AnEmptyDataSetHasNoSteps) {
  for (const TailPolicy tail : {TailPolicy::kDeliver, TailPolicy::kDrop, TailPolicy::kCarry}) {
    const Cursor cursor(options(0, 4, tail));
    EXPECT_EQ(cursor.steps(0), 0U);
    EXPECT_TRUE(cursor.batch(0, 0).empty());
  }
}

}  // namespace
}  // namespace isocost
