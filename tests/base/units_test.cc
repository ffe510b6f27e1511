#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace isocost {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Units, AModulesTimeIsBetweenANanosecondAndADay) {
  EXPECT_TRUE(is_module_time(1e-9));
  EXPECT_TRUE(is_module_time(86'400));
  for (const double seconds :
       {0.0, 9e-10, 86'401.0, kNotMeasured, kNan, std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(is_module_time(seconds)) << seconds;
  }
}

TEST(Units, NoWorkAndNoMeasurementAreReportable) {
  for (const double seconds : {1e-9, 1.0, 0.0, kNotMeasured}) {
    EXPECT_TRUE(is_reportable(seconds)) << seconds;
  }
  for (const double seconds : {-0.5, -2.0, 1e-12, 1e9, kNan}) {
    EXPECT_FALSE(is_reportable(seconds)) << seconds;
  }
}

}  // namespace
}  // namespace isocost
