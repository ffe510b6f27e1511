#include "loader/dataset/stores/remote/internal/in_flight_limit.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

void answer(InFlightLimit& limit, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) limit.answered(true);
}

TEST(InFlightLimit, DoublesEachRoundUntilTheServerAsksToWait) {
  InFlightLimit limit(128);
  ASSERT_EQ(limit.allowed(), 16U);
  answer(limit, 16);
  EXPECT_EQ(limit.allowed(), 32U);
  answer(limit, 1000);
  EXPECT_EQ(limit.allowed(), 128U);
}

TEST(InFlightLimit, GrowsByOneARoundAfterwards) {
  InFlightLimit limit(128);
  limit.throttled(limit.period());
  ASSERT_EQ(limit.allowed(), 8U);
  answer(limit, 7);
  EXPECT_EQ(limit.allowed(), 8U);
  answer(limit, 1);
  EXPECT_EQ(limit.allowed(), 9U);
  answer(limit, 9);
  EXPECT_EQ(limit.allowed(), 10U);
}

TEST(InFlightLimit, HalvesOnceForTheRequestsOfAPeriod) {
  InFlightLimit limit(128);
  const std::uint64_t sent_in = limit.period();
  for (int i = 0; i < 16; ++i) limit.throttled(sent_in);
  EXPECT_EQ(limit.allowed(), 8U);
  limit.throttled(limit.period());
  EXPECT_EQ(limit.allowed(), 4U);
}

TEST(InFlightLimit, StaysBetweenOneAndTheMost) {
  InFlightLimit limit(3);
  answer(limit, 100);
  EXPECT_EQ(limit.allowed(), 3U);
  for (int i = 0; i < 10; ++i) limit.throttled(limit.period());
  EXPECT_EQ(limit.allowed(), 1U);
  answer(limit, 1);
  EXPECT_EQ(limit.allowed(), 2U);
  EXPECT_EQ(InFlightLimit(0).allowed(), 1U);
}

TEST(InFlightLimit, DoesNotGrowWhileNothingWaits) {
  InFlightLimit limit(128);
  for (int i = 0; i < 1000; ++i) limit.answered(false);
  EXPECT_EQ(limit.allowed(), 16U);
}

}  // namespace
}  // namespace isocost
