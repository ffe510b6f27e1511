#include "costmodel/internal/pause_control.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr std::int64_t kStepsBeforePause = 16;
constexpr double kMemory = 1.0 / 8;
// Multiple of the overhead that the gain must reach to end a pause, so that correction does not
// alternate.
constexpr double kResumeFactor = 2;

}  // namespace

void PauseControl::take(double gain, double overhead, bool settled) {
  ++steps_;
  if (!settled) resume();
  const double weight = std::max(kMemory, 1 / static_cast<double>(steps_ + 1));
  gain_ += weight * (gain - gain_);
  overhead_ += weight * (overhead - overhead_);
  const double price = std::max(overhead_, least_gain_);
  if (!paused_) {
    paused_ = steps_ >= kStepsBeforePause && !(gain_ >= price);
  } else if (gain_ > kResumeFactor * price) {
    paused_ = false;
  }
}

void PauseControl::resume() {
  paused_ = false;
  steps_ = 0;
}

}  // namespace isocost
