#include "costmodel/internal/gate.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr std::int64_t kStepsToJudge = 16;
constexpr double kMemory = 1.0 / 8;
// On again only at twice the price: no flutter.
constexpr double kReopen = 2;

}  // namespace

void Gate::take(double gain, double overhead, bool settled) {
  ++steps_;
  if (!settled) open();
  const double weight = std::max(kMemory, 1 / static_cast<double>(steps_ + 1));
  gain_ += weight * (gain - gain_);
  overhead_ += weight * (overhead - overhead_);
  const double price = std::max(overhead_, least_gain_);
  if (on_) {
    on_ = steps_ < kStepsToJudge || gain_ >= price;
  } else if (gain_ > kReopen * price) {
    on_ = true;
  }
}

void Gate::open() {
  on_ = true;
  steps_ = 0;
}

}  // namespace isocost
