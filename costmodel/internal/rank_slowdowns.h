#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isocost {

/// A rank's microbatch of a step: measured over predicted seconds.
struct RankRatio {
  std::int32_t rank = 0;
  double ratio = 0;
};

/// The median of a rank's microbatches.
struct RankMedian {
  std::size_t rank = 0;
  double ratio = 0;
  std::size_t microbatches = 0;
};

/// Of the ranks that have any, in their order. Ratios are sorted by rank.
std::vector<RankMedian> medians_by_rank(std::span<RankRatio> ratios);

/// How much longer each rank takes than the ranks on the whole: a factor on its seconds, 1.2 for
/// one that takes 20 % longer.
///
/// A step gives every rank one observation, the median over its microbatches, relative to the
/// median rank: what changes everywhere is not the ranks'. Of two middle ranks that is the one that
/// is nearer to what was learned (where one of two ranks slows down, the other has not changed),
/// and before anything was, the faster one: hosts are slow for a reason. A running mean follows
/// them; where three steps on end lie far from it, to one side, the rank has changed its slowdown,
/// and the mean starts anew from their median. One bad step moves nothing.
class RankSlowdowns {
 public:
  /// Takes one step's microbatches, ratios without the ranks' factors. They are sorted by rank.
  void take(std::span<RankRatio> step);

  /// [ranks], those learned: for judging measurements. A rank never seen takes 1.
  std::span<const double> cost_model_state() const { return cost_model_state_; }
  /// [ranks], those learned less what may be chance: for planning.
  std::span<const double> published() const { return published_; }
  /// The rank was far off in the last step and nobody knows yet whether it stays so: its
  /// measurements tell nothing about the data.
  bool in_doubt(std::int32_t rank) const;
  /// Makes room for ranks below `count`.
  void grow(std::size_t count);

 private:
  struct Recent {
    double far[3] = {0, 0, 0};  // logarithms of the last observations that lay far off
    int count = 0;              // on end; the sign tells the side
  };
  void learn_noise(std::span<const RankRatio> step, double everywhere);
  void observe(std::size_t rank, double observed, double variance);
  void publish(std::size_t rank);

  std::vector<double> cost_model_state_;
  std::vector<double> published_;
  std::vector<double> logarithms_;  // of learnt_
  std::vector<double> variances_;   // of logarithms_
  std::vector<Recent> recent_;
  double noise_ = 0;        // of one microbatch, relative; 0: nothing was seen yet
  std::int64_t steps_ = 0;  // taken
  std::vector<double> scratch_;
};

}  // namespace isocost
