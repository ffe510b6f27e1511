#pragma once

#include <cstdint>

namespace isocost {

/// Decides when correction pauses: when it takes more step time than it saves. While paused,
/// correction only monitors.
class PauseControl {
 public:
  /// Correction also pauses if the gain is below `least_gain`, a share of the step time.
  explicit PauseControl(double least_gain) : least_gain_(least_gain) {}

  /// Takes one step's estimates of gain and overhead, as shares of the step time. Correction does
  /// not pause while the factors are not `settled`.
  void take(double gain, double overhead, bool settled);
  /// Ends a pause, for a module that has changed, until new evidence is collected.
  void resume();

  bool paused() const { return paused_; }
  double gain() const { return gain_; }
  double overhead() const { return overhead_; }

 private:
  double least_gain_;
  double gain_ = 0;
  double overhead_ = 0;
  std::int64_t steps_ = 0;  // since the last resume()
  bool paused_ = false;
};

}  // namespace isocost
