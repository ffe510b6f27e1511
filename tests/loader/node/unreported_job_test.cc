#include "loader/node/internal/unreported_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSteps = UnreportedJob::kSteps;

TEST(UnreportedJob, SaysOnceThatCostsAreNotCorrected) {
  UnreportedJob job;
  EXPECT_FALSE(job.acknowledged(kSteps - 1).has_value());
  EXPECT_THAT(job.acknowledged(kSteps).value_or(""), HasSubstr("costs are not corrected"));
  EXPECT_FALSE(job.acknowledged(kSteps + 1).has_value());
  job.begin_job();
  EXPECT_FALSE(job.acknowledged(0).has_value());
  EXPECT_TRUE(job.acknowledged(kSteps).has_value());
}

TEST(UnreportedJob, OneReportIsEnough) {
  UnreportedJob job;
  job.reported();
  EXPECT_FALSE(job.acknowledged(100 * kSteps).has_value());
}

}  // namespace
}  // namespace isocost
