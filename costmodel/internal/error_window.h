#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "base/statistics.h"

namespace isocost {

/// The last 256 absolute relative errors.
class ErrorWindow {
 public:
  void add(double error) {
    if (errors_.size() < kSize) {
      errors_.push_back(error);
    } else {
      errors_[next_] = error;
    }
    next_ = (next_ + 1) % kSize;
  }
  /// Returns the mean of the errors; NaN if there are none.
  double mean() const {
    return errors_.empty() ? std::numeric_limits<double>::quiet_NaN() : isocost::mean(errors_);
  }

 private:
  static constexpr std::size_t kSize = 256;
  std::vector<double> errors_;
  std::size_t next_ = 0;
};

}  // namespace isocost
