#include "loader/dataset/catalogue/internal/repeated_keys.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

TEST(RepeatedKeys, NameTheFirstSampleWithTheKey) {
  std::vector<Shard> shards;
  shards.push_back(made_shard("a.tar", {"x", "y"}));
  shards.push_back(made_shard("b.tar", {"z", "y"}));
  shards.push_back(made_shard("c.tar", {"y", "x", "only"}));
  const std::vector<RepeatedKey> repeats = repeated_keys(shards);
  ASSERT_EQ(repeats.size(), 3U);
  EXPECT_EQ(repeats[0].repeat, (SamplePosition{1, 1}));
  EXPECT_EQ(repeats[0].first, (SamplePosition{0, 1}));
  EXPECT_EQ(repeats[1].repeat, (SamplePosition{2, 0}));
  EXPECT_EQ(repeats[1].first, (SamplePosition{0, 1}));
  EXPECT_EQ(repeats[2].repeat, (SamplePosition{2, 1}));
  EXPECT_EQ(repeats[2].first, (SamplePosition{0, 0}));
}

TEST(RepeatedKeys, ThereAreNoneWhereKeysDiffer) {
  std::vector<Shard> shards;
  EXPECT_TRUE(repeated_keys(shards).empty());
  shards.push_back(made_shard("a.tar", {"x", "y"}));
  shards.push_back(made_shard("b.tar", {}));
  shards.push_back(made_shard("c.tar", {"xy", "a/x"}));
  EXPECT_TRUE(repeated_keys(shards).empty());
}

}  // namespace
}  // namespace isocost
