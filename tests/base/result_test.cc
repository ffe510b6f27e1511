#include "base/result.h"

#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error(ErrorCode::kInvalidArgument, std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  ISOCOST_ASSIGN(const int once, half(value));
  return half(once);
}

Status check(int value) {
  ISOCOST_TRY_CONTEXT(quarter(value), "check");
  return {};
}

TEST(Result, PassesValuesAndErrorsUp) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message(), "3 is odd");
  EXPECT_TRUE(check(4).has_value());
  EXPECT_EQ(check(5).error().to_string(), "invalid_argument: check: 5 is odd");
}

TEST(Error, KnowsWhereItWasRaised) {
  EXPECT_NE(std::string(half(1).error().where().file_name()).find("result_test.cc"),
            std::string::npos);
}

TEST(ErrorCode, HasAName) {
  EXPECT_EQ(error_code_name(ErrorCode::kInternal), "internal");
  EXPECT_EQ(error_code_name(ErrorCode::kOutOfMemory), "out_of_memory");
}

}  // namespace
}  // namespace isocost
