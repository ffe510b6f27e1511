#include "cli/lab/step_recorder.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/statistics.h"

namespace isocost::cli {

void StepRecorder::begin(EmulatedTime now) {
  std::fill(waits_.begin(), waits_.end(), 0.0);
  started_ = now;
}

void StepRecorder::end(EmulatedTime now, const EmulatedMicrobatches& encoder,
                       const EmulatedMicrobatches& llm) {
  if (++finished_ <= warm_up_) return;
  EmulatedStep step;
  step.seconds = seconds_between(started_, now);
  step.data_wait_s = mean(waits_);
  step.work = work_of(model_, encoder, llm);
  step.coupled = is_coupled(llm);
  steps_.push_back(std::move(step));
}

}  // namespace isocost::cli
