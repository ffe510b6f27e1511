#include "costmodel/internal/far_beyond.h"

#include <algorithm>
#include <cstddef>

namespace isocost {

double FarBeyond::take(std::int32_t rank, double seconds, double predicted_s, double profile_s) {
  double expected = predicted_s;
  if (counted_ > 0) expected = std::max(expected, median() * profile_s);
  const bool is_far = expected > 0 && seconds > kFarBeyond * expected;
  bool before = first_was_far_;
  if (counted_ == 0) {
    first_was_far_ = is_far;
  } else {
    const auto at = static_cast<std::size_t>(rank);
    if (at >= was_far_.size()) was_far_.resize(at + 1);
    before = was_far_[at];
    was_far_[at] = is_far;
  }
  if (is_far && !before) return expected;
  latest_.at(counted_++ % kLatest) = seconds / profile_s;
  return 0;
}

void FarBeyond::forget() { *this = {}; }

double FarBeyond::median() const {
  std::array<double, kLatest> sorted = latest_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(counted_, kLatest));
  const auto middle = sorted.begin() + (end - sorted.begin() - 1) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

}  // namespace isocost
