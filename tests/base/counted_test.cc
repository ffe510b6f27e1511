#include "base/counted.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace isocost {
namespace {

TEST(Counted, OneIsSingularAndEveryOtherCountPlural) {
  EXPECT_EQ(counted(std::size_t{1}, "shard"), "1 shard");
  EXPECT_EQ(counted(std::size_t{0}, "shard"), "0 shards");
  EXPECT_EQ(counted(std::int64_t{-1}, "shard"), "-1 shards");
  EXPECT_EQ(counted(UINT64_MAX, "bad sample"), "18446744073709551615 bad samples");
}

TEST(Counted, PluralsFollowTheEndOfTheNoun) {
  EXPECT_EQ(plural("global batch"), "global batches");
  EXPECT_EQ(plural("box"), "boxes");
  EXPECT_EQ(plural("pass"), "passes");
  EXPECT_EQ(plural("entry"), "entries");
  EXPECT_EQ(plural("array"), "arrays");
  EXPECT_EQ(plural("replica"), "replicas");
}

}  // namespace
}  // namespace isocost
