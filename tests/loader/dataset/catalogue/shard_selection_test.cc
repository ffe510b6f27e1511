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

TEST(ShardSelection, SaysWhereASampleIsCut) {
  const ShardSelection selection(3, {0}, {{2, TurnCut{.end = {}, .at = {9, 1, 0}}}});
  EXPECT_EQ(selection.cut_of(1), nullptr);
  ASSERT_NE(selection.cut_of(2), nullptr);
  EXPECT_EQ(selection.cut_of(2)->at.ids, 9U);
}

}  // namespace
}  // namespace isocost
