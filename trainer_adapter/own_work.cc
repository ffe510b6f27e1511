#include "trainer_adapter/own_work.h"

#include <algorithm>
#include <cstddef>

namespace isocost {

void OwnWork::add(CostModule module) {
  if (!measures()) return;
  double& total = seconds_.at(static_cast<std::size_t>(module));
  total = std::max(total, 0.0) + since_last();
}

void OwnWork::leave_out() {
  if (measures()) communication_s_ += since_last();
}

MonotonicTime OwnWork::now() const {
  if (wait_) wait_();
  return clock_();
}

double OwnWork::since_last() {
  const MonotonicTime now = this->now();
  const double seconds = seconds_between(last_, now);
  last_ = now;
  return seconds;
}

}  // namespace isocost
