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
#include "transport/messages.h"

namespace isocost {

/// A decoded sample on its way out: its tensors, and the memory granted for them, which is given
/// back when the last reader lets go.
struct DecodedSample {
  MemoryBudget::Grant grant;
  std::vector<NamedTensor> tensors;
};

/// One sample of a sealed step. Its tensors are kept where memory allowed; else they are decoded
/// once more when their turn comes.
struct SampleSlot {
  SampleId id = 0;
  Load load;
  float weight = 1.0F;
  std::string key;                ///< "shard/key".
  std::string json;               ///< See SampleEntry::json.
  std::vector<SamplePart> parts;  ///< What the recipe makes of each part.
  std::vector<TensorSpec> specs;  ///< Names, dtypes and shapes of its tensors.
  std::shared_ptr<const DecodedSample> decoded;
  std::uint32_t readers = 0;  ///< Receivers that it was not sent to yet; then it is let go.
};

/// A global batch whose samples have all been decoded once, so that what is bad is known and the
/// count of label tokens is exact, and which is therefore planned. The plan is immutable;
/// `slots[i].decoded` and `readers` belong to the delivering thread.
struct SealedStep {
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;
  std::vector<SampleSlot> slots;
  StepPlan plan;
  double plan_seconds = 0;      ///< That it took.
  bool profile_wanted = false;  ///< The first rank is asked to measure its profile again.
  std::string
      cost_model_state;  ///< Of the cost model, for saved states; empty: not with this step.

  Position last_position(std::size_t receiver) const {
    return {epoch, step, plan.microbatches_of(receiver) - 1};
  }
  /// Each microbatch that holds a sample is a reader of it, for each receiver of the microbatch.
  void count_readers();
};

}  // namespace isocost
