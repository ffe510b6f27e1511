#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace isocost {

/// Decides when correction pauses: when it takes more step time than it saves. While paused,
/// correction only monitors, and few steps are measured.
class PauseControl {
 public:
  /// Correction also pauses if the gain is below `least_gain`, a share of the step time.
  explicit PauseControl(double least_gain) : least_gain_(least_gain) {}

  /// The estimates of a step, as shares of its time.
  struct Estimates {
    double gain = 0;
    double measuring = 0;  ///< Time that measuring takes the slowest rank.
    double learning = 0;   ///< Time that learning takes the node.
    /// Correction does not pause while its factors are not settled.
    bool settled = true;
  };
  /// Takes the estimates of one measured step.
  void take(const Estimates& estimates);
  /// Ends a pause, for a module that has changed, until new evidence is collected.
  void resume();

  bool paused() const { return paused_; }
  double gain() const { return gain_; }
  double overhead() const { return measuring_ + learning_; }
  double measuring() const { return measuring_; }
  /// Returns the number of steps of which one is to be measured.
  std::int64_t measuring_stride() const;

 private:
  double without_outlier(double measuring);

  double least_gain_;
  double gain_ = 0;
  double measuring_ = 0;
  double learning_ = 0;
  std::array<double, 3> recent_{};  // the last estimates of `measuring`
  std::size_t estimates_ = 0;       // number of these so far
  std::int64_t steps_ = 0;          // since the last resume()
  bool paused_ = false;
};

}  // namespace isocost
