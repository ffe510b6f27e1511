#include "costmodel/internal/rank_speeds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "costmodel/internal/robust.h"

namespace isocost {
namespace {

constexpr int kStepsToBelieve = 3;
constexpr double kFar = 4;  // deviations
constexpr double kSmallestJump = 0.03;
constexpr double kSmallestGain = 1.0 / 32;
constexpr double kSmallestNoise = 0.002;
constexpr double kChance = 4.5;
constexpr double kLargestSpeed = 50;

}  // namespace

void RankSpeeds::grow(std::size_t count) {
  if (count <= learnt_.size()) return;
  learnt_.resize(count, 1);
  published_.resize(count, 1);
  logarithms_.resize(count, 0);
  variances_.resize(count, 0.01);
  recent_.resize(count);
}

bool RankSpeeds::in_doubt(std::int32_t rank) const {
  return recent_[static_cast<std::size_t>(rank)].count != 0;
}

void RankSpeeds::take(std::span<Sample> step) {
  if (step.empty()) return;
  std::stable_sort(step.begin(), step.end(),
                   [](const Sample& a, const Sample& b) { return a.rank < b.rank; });
  grow(static_cast<std::size_t>(step.back().rank) + 1);
  struct Observed {
    std::size_t rank;
    double ratio;
    std::size_t microbatches;
  };
  std::vector<Observed> ranks;
  for (std::size_t first = 0; first < step.size();) {
    std::size_t end = first;
    scratch_.clear();
    while (end < step.size() && step[end].rank == step[first].rank) {
      scratch_.push_back(step[end++].ratio);
    }
    const std::size_t microbatches = end - first;
    ranks.push_back({static_cast<std::size_t>(step[first].rank), median(scratch_), microbatches});
    first = end;
  }
  if (ranks.size() < 2) return;  // alone, a rank is the measure of itself

  scratch_.clear();
  for (const Observed& rank : ranks) scratch_.push_back(rank.ratio / learnt_[rank.rank]);
  const double everywhere = median(scratch_);
  scratch_.clear();
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (!is_sampled(i, step.size())) continue;
    scratch_.push_back(step[i].ratio /
                       (everywhere * learnt_[static_cast<std::size_t>(step[i].rank)]));
  }
  const double seen = std::max(robust_deviation(scratch_, 1), kSmallestNoise);
  noise_ = noise_ == 0 ? seen : noise_ + (std::min(seen, 2 * noise_) - noise_) / 8;

  for (const Observed& rank : ranks) {
    // The median of n normal values; its variance is pi/2 that of their mean.
    const double variance = 1.57 * noise_ * noise_ / static_cast<double>(rank.microbatches);
    observe(rank.rank, std::log(rank.ratio / everywhere), variance);
  }
  // Only relations are observed: the median rank is the measure.
  scratch_.clear();
  for (const Observed& rank : ranks) scratch_.push_back(logarithms_[rank.rank]);
  const double centre = median(scratch_);
  for (const Observed& rank : ranks) {
    logarithms_[rank.rank] -= centre;
    publish(rank.rank);
  }
}

void RankSpeeds::observe(std::size_t rank, double observed, double variance) {
  double& mean = logarithms_[rank];
  double& its = variances_[rank];
  Recent& recent = recent_[rank];
  const double off = observed - mean;
  const bool far = std::abs(off) > std::max(kSmallestJump, kFar * std::sqrt(variance + its));
  if (far) {
    const int side = off > 0 ? 1 : -1;
    recent.count = recent.count * side > 0 ? recent.count + side : side;
    recent.far[std::abs(recent.count) - 1] = observed;
    if (std::abs(recent.count) < kStepsToBelieve) return;
    mean = median(recent.far);
    its = variance * 1.57 / kStepsToBelieve;
    recent.count = 0;
  } else {
    recent.count = 0;
    const double gain = std::max(its / (its + variance), kSmallestGain);
    mean += gain * off;
    its = std::max((1 - gain) * its, variance * kSmallestGain / 2);
  }
  mean = std::clamp(mean, -std::log(kLargestSpeed), std::log(kLargestSpeed));
}

void RankSpeeds::publish(std::size_t rank) {
  learnt_[rank] = std::exp(logarithms_[rank]);
  published_[rank] =
      std::exp(significant(logarithms_[rank], kChance * std::sqrt(variances_[rank])));
}

}  // namespace isocost
