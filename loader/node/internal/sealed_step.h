#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/memory_budget.h"
#include "base/sample_part.h"
#include "base/tensor.h"
#include "loader/dataset/dataset.h"
#include "loader/plan/step_plan.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A decoded sample: its tensors, and the memory granted for them, which is returned when the last
/// reference is gone.
struct DecodedSample {
  MemoryBudget::Grant grant;
  std::vector<NamedTensor> tensors;
};

/// One sample of a sealed step. Its tensors are kept if memory allowed; otherwise the sample is
/// decoded again when it is sent.
struct StepSample {
  SampleId id = 0;
  Load load;
  float weight = 1.0F;
  std::string key;                ///< "shard/key".
  std::string json;               ///< See SampleEntry::json.
  std::vector<SamplePart> parts;  ///< The parts as the recipe describes them.
  std::vector<TensorSpec> specs;  ///< Names, dtypes and shapes of its tensors.
  std::shared_ptr<const DecodedSample> decoded;
  std::uint32_t readers = 0;  ///< Deliveries that are left; the sample is released after the last.
};

/// A planned global batch. All of its samples were decoded once before planning, so bad ones are
/// left out and the count of label tokens is exact. The plan is immutable; `samples[i].decoded` and
/// `readers` belong to the delivering thread.
struct SealedStep {
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;
  std::vector<StepSample> samples;
  StepPlan plan;
  double plan_seconds = 0;       ///< Time that planning took.
  bool profile_wanted = false;   ///< Whether it asks the first rank to measure a new model profile.
  std::string cost_model_state;  ///< For trainers' saved states; empty: not with this step.

  Position last_position(std::size_t receiver) const {
    return {epoch, step, plan.microbatches_of(receiver) - 1};
  }
  /// Sets every sample's `readers` to the number of receivers of all microbatches that hold the
  /// sample.
  void count_readers();
};

}  // namespace isocost
