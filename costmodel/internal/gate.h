#pragma once

#include <cstdint>

namespace isocost {

/// Decides whether correction runs: where the step time that its factors save is less than what
/// learning them takes, it only keeps watch.
class Gate {
 public:
  /// `least_gain`: share of the step time that a gain must reach besides.
  explicit Gate(double least_gain) : least_gain_(least_gain) {}

  /// One step's estimate of the gain and of the overhead, as shares of the step time. `settled`:
  /// factors are known well enough to evaluate_join by.
  void take(double gain, double overhead, bool settled);
  /// Something changed: on again until the evidence is in.
  void open();

  bool on() const { return on_; }
  double gain() const { return gain_; }
  double overhead() const { return overhead_; }

 private:
  double least_gain_;
  double gain_ = 0;
  double overhead_ = 0;
  std::int64_t steps_ = 0;  // since opened
  bool on_ = true;
};

}  // namespace isocost
