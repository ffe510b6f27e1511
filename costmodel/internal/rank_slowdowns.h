#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isocost {

/// Ratio of measured to predicted seconds of one microbatch of a step.
struct RankRatio {
  std::int32_t rank = 0;
  double ratio = 0;
};

/// Median ratio over a rank's microbatches of a step.
struct RankMedian {
  std::size_t rank = 0;
  double ratio = 0;
  std::size_t microbatches = 0;
};

/// Returns the median of each rank that has microbatches, by rank. Sorts `ratios` by rank.
std::vector<RankMedian> medians_by_rank(std::span<RankRatio> ratios);

/// Learns each rank's slowdown: the factor on its seconds relative to the median rank. 1.2 is a
/// rank that takes 20 % longer.
///
/// Each step gives every rank one observation: the median over its microbatches, relative to the
/// median rank. A change on all ranks is therefore not attributed to ranks. If there are two middle
/// ranks, the reference is the one nearer to its learned slowdown (if one of two ranks slows down,
/// the other has not changed); before anything is learned, it is the faster one. A running mean
/// follows the observations. If three consecutive observations are far from the mean on the same
/// side, the rank has changed, and the mean restarts at their median. A single outlier has no
/// effect.
class RankSlowdowns {
 public:
  /// Takes one step's microbatches. Their ratios do not include the ranks' factors. Sorts `step` by
  /// rank.
  void take(std::span<RankRatio> step);

  /// Returns the learned slowdowns [ranks], for comparison with measurements. Ranks without
  /// observations have 1.
  std::span<const double> learned() const { return learned_; }
  /// Returns the learned slowdowns without the part that chance explains [ranks], for planning.
  std::span<const double> published() const { return published_; }
  /// Returns whether the rank's last observation was far off and not yet confirmed. Its
  /// measurements are then not evidence about the modules.
  bool in_doubt(std::int32_t rank) const;
  /// Returns whether any rank is in doubt.
  bool any_in_doubt() const;
  /// Adds ranks up to `count`.
  void grow(std::size_t count);

 private:
  struct Recent {
    double far[3] = {0, 0, 0};  // logarithms of the last observations that were far off
    int count = 0;              // number of consecutive ones; the sign is the side
    int steps_without = 0;      // consecutive steps without a measurement of the rank
  };
  void learn_noise(std::span<const RankRatio> step, double common_ratio);
  void observe(std::size_t rank, double observed, double variance);
  void publish(std::size_t rank);

  std::vector<double> learned_;
  std::vector<double> published_;
  std::vector<double> logarithms_;  // logarithms of learned_
  std::vector<double> variances_;   // variances of logarithms_
  std::vector<Recent> recent_;
  double noise_ = 0;  // relative deviation of one microbatch; 0: no observation yet
  std::int64_t steps_ = 0;
  std::vector<double> scratch_;
};

}  // namespace isocost
