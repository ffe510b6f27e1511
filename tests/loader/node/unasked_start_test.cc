#include "loader/node/internal/unasked_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

using testing::HasSubstr;

TEST(UnaskedStart, TheJobsFirstStepNeedsNoWarning) {
  EXPECT_FALSE(warning_of("rank 0", {{0, 0, 0}, {}}).has_value());
  EXPECT_FALSE(warning_of("rank 0", {{2, 5, 0}, {7, 2, 5, {}}}).has_value());
  EXPECT_FALSE(warning_of_repeated_step("rank 0", {{0, 0, 0}, {}}).has_value());
}

TEST(UnaskedStart, AnotherStepIsNamedWithTheRemedy) {
  for (const Position& next : {Position{0, 3, 0}, Position{1, 0, 0}}) {
    const auto warning = warning_of("rank 4", {next, {}});
    ASSERT_TRUE(warning.has_value());
    EXPECT_THAT(*warning,
                HasSubstr("rank 4 joins without a start and goes on at epoch " +
                          std::to_string(next.epoch) + ", step " + std::to_string(next.step)));
    EXPECT_THAT(*warning, HasSubstr("options.start"));
  }
  EXPECT_THAT(warning_of_repeated_step("rank 0", {{0, 3, 0}, {}}).value_or(""),
              HasSubstr("epoch 0, step 3 is delivered again from its first microbatch"));
}

TEST(UnaskedStart, InsideAStepGradientsAreLost) {
  const auto warning = warning_of("rank 1", {{0, 0, 2}, {}});
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(*warning, HasSubstr("rank 1 joins inside epoch 0, step 0, of which its last client "
                                  "trained 2 microbatches"));
  EXPECT_THAT(*warning, HasSubstr("gradients are lost"));
}

}  // namespace
}  // namespace isocost
