#include "loader/node/internal/sealed_step.h"

#include <algorithm>

namespace isocost {

void SealedStep::take_dummies(std::span<const StepSample> all) {
  for (const DummyChoice& wanted : plan.dummies) {
    const auto found = std::ranges::find_if(all, [&](const StepSample& dummy) {
      return dummy.parts.front().modality == wanted.modality;
    });
    dummies.push_back(*found);
  }
}

std::vector<DeliveredSample> SealedStep::delivered(std::size_t receiver,
                                                   std::uint32_t microbatch) const {
  const PlannedMicrobatch& bin = plan.microbatch_of(receiver, microbatch);
  std::vector<DeliveredSample> all;
  all.reserve(bin.samples.size() + bin.dummies.size());
  for (const PlannedSample& sample : bin.samples) {
    all.push_back({&samples[sample.index], sample.weight});
  }
  for (const std::uint32_t dummy : bin.dummies) all.push_back({&dummies[dummy], 0.0F});
  return all;
}

void SealedStep::count_readers() {
  for (StepSample& sample : samples) sample.readers = 0;
  for (std::size_t receiver = 0; receiver < plan.receivers(); ++receiver) {
    for (std::uint32_t m = 0; m < plan.microbatches_of(receiver); ++m) {
      for (const PlannedSample& sample : plan.microbatch_of(receiver, m).samples) {
        samples[sample.index].readers += 1;
      }
    }
  }
}

}  // namespace isocost
