#pragma once

#include <cstdint>

namespace isocost {

/// Detects that a search no longer approaches its target. Counts work and reads no clock, so one
/// problem has one plan on every machine. Single-thread.
class Progress {
 public:
  /// The search has stalled if, while `window` units of work were spent, its distance to the target
  /// fell by less than the fraction `least_gain`. `work` is the budget that is left now.
  Progress(std::int64_t window, double least_gain, std::int64_t work, double distance)
      : window_(window), least_gain_(least_gain), work_(work), distance_(distance) {}

  /// Returns whether the search has stalled by the time `work` is left. `distance` is a function of
  /// the distance now, called once in a window. A stalled search stays stalled.
  template <typename Distance>
  bool stalled(std::int64_t work, const Distance& distance) {
    if (stalled_ || work_ - work < window_) return stalled_;
    const double before = distance_;
    work_ = work;
    distance_ = distance();
    stalled_ = distance_ > before * (1 - least_gain_);
    return stalled_;
  }

 private:
  std::int64_t window_;
  double least_gain_;
  std::int64_t work_;
  double distance_;
  bool stalled_ = false;
};

}  // namespace isocost
