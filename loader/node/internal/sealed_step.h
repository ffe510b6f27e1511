#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loader/node/decoding/step_sample.h"
#include "loader/plan/step_plan.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A sample of a microbatch, in the step that owns it, and its weight in the loss.
struct DeliveredSample {
  const StepSample* sample;
  float weight;
};

/// The source of a sample, and the seconds that the sample adds to a microbatch.
struct SampleOfSource {
  std::uint32_t source = 0;  ///< Its number in Dataset::sources.
  double predicted_s = 0;    ///< Predicted when the step was planned.
};

/// A planned global batch. All of its samples were decoded once before planning, so bad ones are
/// left out and the count of label tokens is exact. The plan is immutable; `samples[i].decoded`,
/// `read` and `readers` belong to the delivering thread.
struct SealedStep {
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;
  bool ends_epoch = false;  ///< Whether it is the last step of its epoch.
  std::vector<StepSample> samples;
  std::vector<StepSample> dummies;      ///< The dummies that StepPlan::dummies chooses.
  std::vector<SampleOfSource> sources;  ///< [samples]; empty without a mixture.
  StepPlan plan;
  double plan_seconds = 0;  ///< Time that planning took.
  /// Above 0: it asks receivers to measure again, which may take each of them so many seconds.
  double profile_budget_s = 0;
  bool seconds_wanted = true;  ///< Whether it asks all ranks for measured seconds.
  std::string
      cost_model_state;  ///< Sent with this step for trainers' saved states; empty: not sent.

  Position last_position(std::size_t receiver) const {
    return {epoch, step, plan.microbatches_of(receiver) - 1};
  }
  /// Takes the dummy samples of `plan` from `all`, which has one for each modality at most.
  void take_dummies(std::span<const StepSample> all);
  /// Returns the samples of the receiver's microbatch in the order of its header: those of the
  /// batch, then the dummies.
  std::vector<DeliveredSample> delivered(std::size_t receiver, std::uint32_t microbatch) const;
  /// Sets every sample's `readers` to the number of receivers of all microbatches that hold the
  /// sample.
  void count_readers();
};

}  // namespace isocost
