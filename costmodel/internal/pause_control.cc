#include "costmodel/internal/pause_control.h"

#include <algorithm>
#include <cmath>

#include "costmodel/cost_model.h"

namespace isocost {
namespace {

constexpr std::int64_t kStepsBeforePause = 16;
constexpr double kMemory = 1.0 / 8;
// Multiple of the overhead that the gain must reach to end a pause, so that correction does not
// alternate.
constexpr double kResumeFactor = 2;
// Part of the gain that measuring may take while correction is on: what was learned stays when no
// step is measured, and the gain is an estimate.
constexpr double kPartOfGain = 0.1;
// Part of the least gain that it may take while correction is paused.
constexpr double kPartOfLeastGain = 0.25;

}  // namespace

void PauseControl::take(const Estimates& estimates) {
  ++steps_;
  if (!estimates.settled) resume();
  const double weight = std::max(kMemory, 1 / static_cast<double>(steps_ + 1));
  gain_ += weight * (estimates.gain - gain_);
  measuring_ += weight * (without_outlier(estimates.measuring) - measuring_);
  learning_ += weight * (estimates.learning - learning_);
  const double price = std::max(overhead(), least_gain_);
  if (!paused_) {
    paused_ = steps_ >= kStepsBeforePause && !(gain_ >= price);
  } else if (gain_ > kResumeFactor * price) {
    paused_ = false;
  }
}

// Returns the median of the last three estimates, so that a process that was stopped while it
// measured does not count.
double PauseControl::without_outlier(double measuring) {
  if (estimates_ == 0) recent_.fill(measuring);
  recent_.at(estimates_++ % recent_.size()) = measuring;
  const auto [a, b, c] = recent_;
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

std::int64_t PauseControl::measuring_stride() const {
  if (steps_ < kStepsBeforePause) return 1;
  const double pays = std::max(paused_ ? 0 : kPartOfGain * gain_, kPartOfLeastGain * least_gain_);
  const std::int64_t least = paused_ ? kLeastStride : 1;
  const double steps = std::ceil(overhead() / pays);
  if (!(steps > static_cast<double>(least))) return least;  // also for NaN
  return steps < kMostStride ? static_cast<std::int64_t>(steps) : kMostStride;
}

void PauseControl::resume() {
  paused_ = false;
  steps_ = 0;
}

}  // namespace isocost
