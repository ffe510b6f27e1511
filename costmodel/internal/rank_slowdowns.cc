#include "costmodel/internal/rank_slowdowns.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "base/statistics.h"
#include "costmodel/cost_model.h"
#include "costmodel/internal/robust_statistics.h"

namespace isocost {
namespace {

constexpr int kStepsToBelieve = 3;
constexpr double kFar = 4;  // in deviations
constexpr double kSmallestJump = 0.03;
constexpr double kSmallestGain = 1.0 / 32;
constexpr double kSmallestRankNoise = 0.002;
// The prior of the noise, and the number of microbatches that it counts as.
constexpr double kFirstRankNoise = 0.05;
constexpr double kFirstCount = 16;
constexpr double kMedianVariance = 1.57;  // ratio of a median's variance to a mean's
constexpr double kChanceOfRank = 4.5;
constexpr double kLargestSlowdown = 50;

}  // namespace

std::vector<RankMedian> medians_by_rank(std::span<RankRatio> ratios) {
  std::stable_sort(ratios.begin(), ratios.end(),
                   [](const RankRatio& a, const RankRatio& b) { return a.rank < b.rank; });
  std::vector<RankMedian> medians;
  std::vector<double> of_rank;
  for (std::size_t first = 0; first < ratios.size(); first += of_rank.size()) {
    of_rank.clear();
    for (std::size_t i = first; i < ratios.size() && ratios[i].rank == ratios[first].rank; ++i) {
      of_rank.push_back(ratios[i].ratio);
    }
    medians.push_back(
        {static_cast<std::size_t>(ratios[first].rank), median(of_rank), of_rank.size()});
  }
  return medians;
}

void RankSlowdowns::grow(std::size_t count) {
  if (count <= learned_.size()) return;
  learned_.resize(count, 1);
  published_.resize(count, 1);
  logarithms_.resize(count, 0);
  variances_.resize(count, 0.01);
  recent_.resize(count);
}

bool RankSlowdowns::in_doubt(std::int32_t rank) const {
  return recent_[static_cast<std::size_t>(rank)].count != 0;
}

bool RankSlowdowns::any_in_doubt() const {
  return std::ranges::any_of(recent_, [](const Recent& recent) {
    return recent.count != 0 && recent.steps_without < kDriftSteps;
  });
}

void RankSlowdowns::take(std::span<RankRatio> step) {
  const std::vector<RankMedian> ranks = medians_by_rank(step);
  if (ranks.size() < 2) return;  // a single rank has no reference
  grow(ranks.back().rank + 1);
  for (Recent& recent : recent_) {
    recent.steps_without = std::min(recent.steps_without + 1, kDriftSteps);
  }
  for (const RankMedian& rank : ranks) recent_[rank.rank].steps_without = 0;
  scratch_.clear();
  for (const RankMedian& rank : ranks) scratch_.push_back(rank.ratio / learned_[rank.rank]);
  const double common_ratio = median_near(scratch_, steps_ < kStepsToBelieve ? 0 : 1);
  ++steps_;
  learn_noise(step, common_ratio);

  // The median of n normal values has pi/2 times the variance of their mean. The same holds for the
  // median over the ranks, which for two ranks is the value of one of them.
  const double measure = 1 + std::min(1.0, kMedianVariance / static_cast<double>(ranks.size()));
  for (const RankMedian& rank : ranks) {
    const double variance =
        kMedianVariance * noise_ * noise_ / static_cast<double>(rank.microbatches);
    observe(rank.rank, std::log(rank.ratio / common_ratio), variance * measure);
  }
  // Only ratios are observed, so the median rank is the reference.
  scratch_.clear();
  for (const RankMedian& rank : ranks) scratch_.push_back(logarithms_[rank.rank]);
  const double centre = median_near(scratch_, 0);
  for (const RankMedian& rank : ranks) {
    logarithms_[rank.rank] -= centre;
    publish(rank.rank);
  }
}

// Estimates the noise from differences within a rank, because differences between ranks are not
// noise. If each rank has only one microbatch, uses the differences between ranks.
void RankSlowdowns::learn_noise(std::span<const RankRatio> step, double common_ratio) {
  const auto relative = [&](const RankRatio& one) {
    return one.ratio / (common_ratio * learned_[static_cast<std::size_t>(one.rank)]);
  };
  scratch_.clear();
  for (std::size_t i = 1; i < step.size(); ++i) {
    if (step[i].rank != step[i - 1].rank || !is_sampled(i, step.size())) continue;
    scratch_.push_back((relative(step[i]) - relative(step[i - 1])) / std::sqrt(2.0));
  }
  double usual = 0;
  if (scratch_.empty()) {
    usual = 1;
    for (const RankRatio& one : step) scratch_.push_back(relative(one));
  }
  const auto count = static_cast<double>(scratch_.size());
  const double seen = std::max(robust_deviation(scratch_, usual), kSmallestRankNoise);
  if (noise_ == 0) {
    noise_ = (kFirstCount * kFirstRankNoise + count * seen) / (kFirstCount + count);
  } else {
    noise_ += std::min(1.0 / 8, count / 128) * (std::min(seen, 2 * noise_) - noise_);
  }
}

void RankSlowdowns::observe(std::size_t rank, double observed, double variance) {
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
    its = variance * kMedianVariance / kStepsToBelieve;
    recent.count = 0;
  } else {
    recent.count = 0;
    const double gain = std::max(its / (its + variance), kSmallestGain);
    mean += gain * off;
    its = std::max((1 - gain) * its, variance * kSmallestGain / 2);
  }
  mean = std::clamp(mean, -std::log(kLargestSlowdown), std::log(kLargestSlowdown));
}

void RankSlowdowns::publish(std::size_t rank) {
  learned_[rank] = std::exp(logarithms_[rank]);
  published_[rank] =
      std::exp(significant(logarithms_[rank], kChanceOfRank * std::sqrt(variances_[rank])));
}

}  // namespace isocost
