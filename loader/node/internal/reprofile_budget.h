#pragma once

#include <algorithm>

namespace isocost {

/// The seconds that measuring again may take: a share of the training so far, less what it took.
/// Single-thread.
class ReprofileBudget {
 public:
  /// `share` is the part of elapsed training, 0 to 1.
  explicit ReprofileBudget(double share) : share_(share) {}

  double share() const { return share_; }
  /// Returns the seconds that have accumulated after so many seconds of training.
  double accumulated_s(double trained_s) const {
    return std::max(0.0, share_ * trained_s - spent_s_);
  }
  /// Returns the seconds that must accumulate before measuring begins: what it took the last time,
  /// and before that kFirstSeconds.
  double needed_s() const { return needed_s_; }
  /// Returns after how many more seconds of training `needed_s` have accumulated.
  double wait_s(double trained_s) const {
    return share_ > 0 ? std::max(0.0, (needed_s_ + spent_s_) / share_ - trained_s) : 0;
  }
  /// Returns the seconds that may be used now. They are few, whatever has accumulated while no
  /// trainer was there: trainers of other stages wait meanwhile.
  double granted_s(double trained_s) const {
    return std::min(accumulated_s(trained_s), std::max(kMostSeconds, needed_s_));
  }
  /// Spends seconds. With `complete`, all was measured, which will take about as long the next
  /// time.
  void spend(double seconds, bool complete) {
    spent_s_ += seconds;
    if (complete) needed_s_ = kMargin * seconds;
  }

  /// Seconds in which layers of any size run often enough: some 20 loads, seven times each.
  static constexpr double kFirstSeconds = 1;
  static constexpr double kMostSeconds = 60;
  /// Covers a measurement that takes longer than the last one. Otherwise its result is discarded.
  static constexpr double kMargin = 1.25;
  /// Part of the accumulated seconds that trainers are told, so that the run under way when they
  /// are over fits.
  static constexpr double kTold = 0.9;

 private:
  const double share_;
  double spent_s_ = 0;
  double needed_s_ = kFirstSeconds;
};

}  // namespace isocost
