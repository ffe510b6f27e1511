#pragma once

#include <cstdint>

namespace isocost {

/// Chooses the steps of a job that are to be measured: the first one, and then one in as many as
/// CostModel::measuring_stride says when they are planned. Single-thread.
class MeasuredSteps {
 public:
  /// Begins another job.
  void begin_job() { has_measured_ = false; }
  /// Returns whether the job's next step is to be measured.
  bool next(std::int64_t stride) {
    ++since_measured_;
    if (has_measured_ && since_measured_ < stride) return false;
    since_measured_ = 0;
    has_measured_ = true;
    return true;
  }

 private:
  std::int64_t since_measured_ = 0;
  bool has_measured_ = false;
};

}  // namespace isocost
