#include "cli/lab/fault.h"

#include <gtest/gtest.h>

#include <stop_token>

namespace isocost::cli {
namespace {

TEST(Fault, KeepsTheFirstErrorAndStopsAll) {
  std::stop_source outer;
  Fault fault(outer.get_token());
  EXPECT_FALSE(fault.error().has_value());
  fault.raise({ErrorCode::kIo, "first"});
  fault.raise({ErrorCode::kCancelled, "second"});
  EXPECT_TRUE(fault.token().stop_requested());
  ASSERT_TRUE(fault.error().has_value());
  EXPECT_EQ(fault.error()->message(), "first");
  EXPECT_FALSE(outer.stop_requested());
}

TEST(Fault, AStopFromOutsideIsNoError) {
  std::stop_source outer;
  const Fault fault(outer.get_token());
  outer.request_stop();
  EXPECT_TRUE(fault.token().stop_requested());
  EXPECT_FALSE(fault.error().has_value());
}

}  // namespace
}  // namespace isocost::cli
