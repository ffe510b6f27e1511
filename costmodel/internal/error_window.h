#pragma once

#include <cstddef>
#include <limits>
#include <vector>

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
  /// NaN of none.
  double mean() const {
    if (errors_.empty()) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (const double error : errors_) sum += error;
    return sum / static_cast<double>(errors_.size());
  }

 private:
  static constexpr std::size_t kSize = 256;
  std::vector<double> errors_;
  std::size_t next_ = 0;
};

}  // namespace isocost
