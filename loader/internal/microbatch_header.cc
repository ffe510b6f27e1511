#include "loader/internal/microbatch_header.h"

#include <algorithm>
#include <string>
#include <vector>

namespace isocost {
namespace {

// The microbatch's tensors: those of its samples, rows added up, in the order of first appearance.
std::vector<TensorSpec> combined_specs(const SealedStep& step, const PlannedMicrobatch& place) {
  std::vector<TensorSpec> specs;
  for (const PlannedSample& sample : place.samples) {
    for (const TensorSpec& spec : step.slots[sample.slot].specs) {
      const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& other) {
        return other.name == spec.name;
      });
      if (found == specs.end()) {
        specs.push_back(spec);
      } else {
        found->shape.front() += spec.shape.front();
      }
    }
  }
  return specs;
}

std::uint32_t rows_of(const SampleSlot& slot, const std::string& tensor) {
  for (const TensorSpec& spec : slot.specs) {
    if (spec.name == tensor) return static_cast<std::uint32_t>(spec.shape.front());
  }
  return 0;
}

}  // namespace

MicrobatchHeader header_of(const SealedStep& step, std::int32_t rank, std::uint32_t microbatch) {
  const PlannedMicrobatch& place = step.plan.place(rank, microbatch);
  MicrobatchHeader header;
  header.position = {step.epoch, step.step, microbatch};
  header.microbatches = step.plan.microbatches;
  header.global_label_tokens = step.plan.global_label_tokens;
  header.plan_hash = step.plan.hash;
  header.profile_wanted = step.profile_wanted && rank == 0 && microbatch == 0;
  header.predicted_seconds = place.predicted;
  header.load = place.load;
  for (const PlannedSample& sample : place.samples) {
    const SampleSlot& slot = step.slots[sample.slot];
    header.samples.push_back(
        {slot.id, sample.weight, static_cast<std::uint32_t>(slot.load.label_tokens)});
  }
  header.tensors = combined_specs(step, place);
  for (const PlannedSample& sample : place.samples) {
    for (const TensorSpec& whole : header.tensors) {
      header.rows.push_back(rows_of(step.slots[sample.slot], whole.name));
    }
  }
  return header;
}

}  // namespace isocost
