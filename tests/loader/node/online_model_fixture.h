#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "base/random.h"
#include "loader/node/internal/online_model.h"
#include "tests/loader/node/node_support.h"
#include "tests/support/log_lines.h"

namespace isocost {

/// A node's cost model, and trainers whose measurements it learns from.
class OnlineModelFixture : public testing::Test {
 protected:
  /// Plans a step, which belongs to the model's present generation.
  static std::shared_ptr<const SealedStep> plan(OnlineModel& model) {
    auto step = std::make_shared<SealedStep>();
    step->plan = model.plan([](const CostModel&) { return Result<StepPlan>(StepPlan{}); }).value();
    return step;
  }
  /// Trains steps of eight microbatches that take `factor` times what the starting profile
  /// predicts. The model learns from the last one when it plans again.
  void train(OnlineModel& model, int steps, double factor) {
    const CostModel exact(profile_, {});
    for (int i = 0; i < steps; ++i) {
      const auto planned = plan(model);
      for (int microbatch = 0; microbatch < 8; ++microbatch) {
        Measurement measurement;
        measurement.load[CostModule::kLlm].add_sequence(
            static_cast<std::int64_t>(500 + random_.below(3000)));
        measurement.seconds = {kNotMeasured, kNotMeasured,
                               factor * exact.predict_microbatch(measurement.load)[2]};
        measurement.step = step_;
        EXPECT_TRUE(model.queue_measurement(measurement, planned));
      }
      step_ += 1;
    }
  }

  const CostProfile profile_ = CostProfile::stated_default();
  LogLines model_log_;
  OnlineModel model_{profile_, {}, model_log_.sink()};

 private:
  Random random_{1};
  std::uint64_t step_ = 0;
};

}  // namespace isocost
