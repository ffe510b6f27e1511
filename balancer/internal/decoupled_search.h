#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/internal/decoupled_step.h"
#include "base/random.h"

namespace isocost {

/// Intervals of `width` numbers each, at the first `ramp` numbers of `ramp_width`.
std::vector<std::uint32_t> even_intervals(std::size_t numbers, std::size_t width);

/// Deals each interval's samples, the longest first, to the encoder replica that has least to do
/// so far: replicas keep abreast of each other at every point of the step.
void deal_to_encoders(const PipelineModel& model, std::span<const PipelineLoad> samples,
                      DecoupledChoice& choice);

/// The coupled choice: each microbatch's samples on the replica that takes its number.
void couple_encoders(const PipelineModel& model, DecoupledChoice& choice);

/// The best choice so far, and the search for a better one.
class DecoupledSearch {
 public:
  DecoupledSearch(const PipelineModel& model, std::span<const PipelineLoad> samples,
                  DecoupledStep& step, DecoupledChoice choice);

  const DecoupledChoice& choice() const { return choice_; }
  const DecoupledScore& score() const { return score_; }

  /// Takes a choice where it is better; true then.
  bool offer(const DecoupledChoice& choice);
  /// Local search with so many looks: moves and swaps of samples between LLM microbatches and
  /// between encoder replicas, swaps of whole microbatches. Small steps back are allowed at first.
  void improve(std::int64_t looks, Random& random);

 private:
  bool change(Random& random);
  bool change_bins(Random& random);
  bool change_encoders(Random& random);
  void take_back();

  const PipelineModel* model_;
  std::span<const PipelineLoad> samples_;
  DecoupledStep* step_;
  DecoupledChoice choice_;
  DecoupledScore score_;
  std::vector<std::uint32_t> with_media_;
  // What the last change was made from.
  std::size_t places_[2] = {};
  std::vector<std::uint32_t> bins_before_[2];
  std::vector<std::pair<std::uint32_t, std::uint32_t>> encoders_before_;
};

}  // namespace isocost
