#include "loader/dataset/catalogue/shard_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace isocost {
namespace {

using testing::ElementsAre;

std::vector<std::uint64_t> samples_of(const ShardSelection& selection) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = 0; i < selection.size(); ++i) samples.push_back(selection.sample(i));
  return samples;
}

TEST(ShardSelection, HasAllButTheDroppedSamples) {
  EXPECT_THAT(samples_of({3, {}, {}}), ElementsAre(0, 1, 2));
  EXPECT_THAT(samples_of({5, {3, 0}, {}}), ElementsAre(1, 2, 4));
  EXPECT_THAT(samples_of({3, {1, 1}, {}}), ElementsAre(0, 2)) << "dropped for two reasons";
  EXPECT_THAT(samples_of({2, {1, 0}, {}}), ElementsAre());
}

TEST(ShardSelection, FindsTheSamplesOfLargeShards) {
  for (const std::uint64_t samples : {64U, 512U, 513U, 5000U}) {
    std::vector<std::uint32_t> dropped;
    std::vector<std::uint64_t> wanted;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const bool is_dropped = i % 7 == 3 || (i > 1000 && i < 2100);
      is_dropped ? dropped.push_back(i) : wanted.push_back(i);
    }
    const ShardSelection selection(samples, dropped, {});
    EXPECT_EQ(samples_of(selection), wanted) << samples;
    EXPECT_EQ(selection.samples(), samples);
    const auto again =
        ShardSelection::create(samples, {selection.bits().begin(), selection.bits().end()}, {}, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(samples_of(*again), wanted) << samples;
  }
}

TEST(ShardSelection, RefusesBitsAndCutsOfNoSample) {
  EXPECT_TRUE(ShardSelection::create(65, {~std::uint64_t{0}, 1}, {3, 64}, {{}, {}}));
  EXPECT_FALSE(ShardSelection::create(65, {1}, {}, {})) << "a bit is missing";
  EXPECT_FALSE(ShardSelection::create(65, {1, 2}, {}, {})) << "a bit too many";
  EXPECT_FALSE(ShardSelection::create(65, {}, {65}, {{}}));
  EXPECT_FALSE(ShardSelection::create(65, {}, {4, 4}, {{}, {}}));
  EXPECT_FALSE(ShardSelection::create(65, {}, {4}, {}));
  EXPECT_FALSE(ShardSelection::create(std::uint64_t{1} << 33, {}, {}, {}));
}

TEST(ShardSelection, SaysWhereASampleIsCut) {
  const ShardSelection selection(3, {0}, {{2, TurnCut{.end = {}, .at = {9, 1, 0}}}});
  EXPECT_EQ(selection.cut_of(1), nullptr);
  ASSERT_NE(selection.cut_of(2), nullptr);
  EXPECT_EQ(selection.cut_of(2)->at.ids, 9U);
}

}  // namespace
}  // namespace isocost
