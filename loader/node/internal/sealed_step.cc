#include "loader/node/internal/sealed_step.h"

namespace isocost {

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
