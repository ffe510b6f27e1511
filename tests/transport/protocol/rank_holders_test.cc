#include "transport/protocol/rank_holders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tests/transport/protocol/hello_of.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;

class RankHoldersTest : public testing::Test {
 protected:
  RankHolders holders_;
  RankHolders::Time now_;
};

TEST_F(RankHoldersTest, NumbersOfJoinsAreNeverUsedAgain) {
  EXPECT_EQ(holders_.session_of(3), 0U);
  const std::uint64_t first = holders_.join("a", hello_of(3, 1), now_);
  holders_.leave(3);
  const std::uint64_t second = holders_.join("b", hello_of(3, 2), now_);
  EXPECT_NE(first, 0U);
  EXPECT_GT(second, first);
  EXPECT_EQ(holders_.session_of(3), second);
}

TEST_F(RankHoldersTest, AClientThatReconnectsHoldsItsRankAtItsNewAddressOnly) {
  holders_.join("old", hello_of(3, 1), now_);
  EXPECT_TRUE(holders_.is_same_client(hello_of(3, 1)));
  EXPECT_FALSE(holders_.is_held_by_another(hello_of(3, 1)));
  holders_.join("new", hello_of(3, 1), now_);
  EXPECT_EQ(holders_.rank_of("old"), std::nullopt);
  EXPECT_EQ(holders_.heard("old", now_), std::nullopt);
  EXPECT_EQ(holders_.heard("new", now_), 3);
  ASSERT_NE(holders_.address_of(3), nullptr);
  EXPECT_EQ(*holders_.address_of(3), "new");
}

TEST_F(RankHoldersTest, AClientThatLeftIsKnownAndHoldsNothing) {
  holders_.join("a", hello_of(0, 1), now_);
  holders_.join("b", hello_of(1, 2), now_);
  holders_.leave(0);
  EXPECT_EQ(holders_.address_of(0), nullptr);
  EXPECT_EQ(holders_.rank_of("a"), std::nullopt);
  EXPECT_FALSE(holders_.is_held_by_another(hello_of(0, 9)));
  EXPECT_TRUE(holders_.is_same_client(hello_of(0, 1)));
  ASSERT_EQ(holders_.all().size(), 1U);
  EXPECT_EQ(holders_.all().front(), std::make_pair(std::int32_t{1}, std::string("b")));
}

TEST_F(RankHoldersTest, AHolderIsAliveOnceItIsHeardAfterAnotherAskedForItsRank) {
  holders_.join("a", hello_of(0, 1), now_);
  EXPECT_TRUE(holders_.is_held_by_another(hello_of(0, 2)));
  EXPECT_FALSE(holders_.challenge(0, now_));
  now_ += milliseconds(2);
  EXPECT_FALSE(holders_.challenge(0, now_)) << "it has sent nothing since";
  holders_.heard("a", now_);
  EXPECT_TRUE(holders_.challenge(0, now_));
  holders_.join("a2", hello_of(0, 1), now_);
  EXPECT_FALSE(holders_.challenge(0, now_)) << "a join forgets who asked before";
}

TEST_F(RankHoldersTest, AHolderIsSilentAfterTheTimeoutAndNoLongerWhenItIsHeard) {
  holders_.join("a", hello_of(0, 1), now_);
  EXPECT_FALSE(holders_.is_silent(0, now_, milliseconds(60)));
  now_ += milliseconds(61);
  EXPECT_TRUE(holders_.is_silent(0, now_, milliseconds(60)));
  holders_.heard("a", now_);
  EXPECT_FALSE(holders_.is_silent(0, now_, milliseconds(60)));
}

TEST_F(RankHoldersTest, AClientIsAloneIfItAloneHoldsARank) {
  EXPECT_EQ(holders_.held_by_another(hello_of(0, 1)), std::nullopt);
  holders_.join("a", hello_of(0, 1), now_);
  EXPECT_EQ(holders_.held_by_another(hello_of(0, 1)), std::nullopt);
  EXPECT_EQ(holders_.held_by_another(hello_of(0, 2)), 0);
  EXPECT_EQ(holders_.held_by_another(hello_of(1, 1)), 0) << "it would leave its first rank";
  holders_.join("b", hello_of(1, 2), now_);
  EXPECT_EQ(holders_.held_by_another(hello_of(0, 1)), 1);
  holders_.leave(1);
  EXPECT_EQ(holders_.held_by_another(hello_of(0, 1)), std::nullopt);
}

}  // namespace
}  // namespace isocost
