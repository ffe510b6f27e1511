#include "trainer_adapter/own_work.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace isocost {
namespace {

using namespace std::chrono_literals;

class OwnWorkTest : public testing::Test {
 protected:
  MonotonicTime now_;
  OwnWork work_{[this] { return now_; }};
};

TEST_F(OwnWorkTest, AddsTheTimeSinceTheLastCallToItsModule) {
  now_ += 2s;
  work_.add(CostModule::kVision);
  now_ += 3s;
  work_.add(CostModule::kLlm);
  now_ += 5s;
  work_.add(CostModule::kVision);
  EXPECT_EQ(work_.seconds(), (std::array<double, kModules>{7, kNotMeasured, 3}));
}

TEST_F(OwnWorkTest, LeavesCommunicationOut) {
  now_ += 2s;
  work_.add(CostModule::kLlm);
  now_ += 4s;
  work_.leave_out();
  now_ += 1s;
  work_.add(CostModule::kLlm);
  now_ += 8s;
  work_.leave_out();
  EXPECT_EQ(work_.seconds(), (std::array<double, kModules>{kNotMeasured, kNotMeasured, 3}));
  EXPECT_EQ(work_.communication_s(), 12);
}

TEST_F(OwnWorkTest, WaitsForTheDeviceBeforeItTakesTheTime) {
  int waits = 0;
  OwnWork work([this] { return now_; },
               [&] {
                 ++waits;
                 now_ += 10s;  // what was queued before
               });
  EXPECT_EQ(waits, 1);
  now_ += 1s;
  work.add(CostModule::kLlm);
  EXPECT_EQ(work.seconds(CostModule::kLlm), 11);
  now_ += 1s;
  work.leave_out();
  EXPECT_EQ(work.communication_s(), 11);
  EXPECT_EQ(work.seconds(CostModule::kVision), kNotMeasured);
  EXPECT_EQ(waits, 3);
}

TEST_F(OwnWorkTest, WithoutWorkNothingIsMeasured) {
  now_ += 1s;
  EXPECT_EQ(work_.seconds(),
            (std::array<double, kModules>{kNotMeasured, kNotMeasured, kNotMeasured}));
  EXPECT_EQ(work_.communication_s(), 0);
}

TEST(NoOwnWork, MeasuresNothing) {
  OwnWork work = OwnWork::none();
  EXPECT_FALSE(work.measures());
  work.add(CostModule::kLlm);
  work.leave_out();
  EXPECT_EQ(work.seconds(),
            (std::array<double, kModules>{kNotMeasured, kNotMeasured, kNotMeasured}));
  EXPECT_EQ(work.communication_s(), 0);
}

}  // namespace
}  // namespace isocost
