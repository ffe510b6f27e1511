#include "cli/lab/step_recorder.h"

#include <utility>

#include "base/clock.h"

namespace isocost::cli {

void StepRecorder::end(EmulatedTime now, const EmulatedMicrobatches& encoder,
                       const EmulatedMicrobatches& llm) {
  if (++finished_ <= warm_up_) return;
  EmulatedStep step;
  step.seconds = seconds_between(started_, now);
  step.work = work_of(model_, encoder, llm);
  step.coupled = is_coupled(llm);
  step.measured = llm.front().front().measured;
  steps_.push_back(std::move(step));
}

}  // namespace isocost::cli
