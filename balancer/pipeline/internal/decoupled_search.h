#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "balancer/pipeline/internal/decoupled_step.h"
#include "base/random.h"

namespace isocost {

/// Returns intervals of `width` consecutive numbers each: [numbers].
std::vector<std::uint32_t> even_intervals(std::size_t numbers, std::size_t width);

/// Assigns each interval's samples, the longest first, to the encoder replica with the least work
/// so far. Replicas thus have equal progress at every point of the step.
void deal_to_encoders(const PipelineModel& model, std::span<const SampleCost> samples,
                      DecoupledChoice& choice);

/// Assigns each microbatch's samples to the encoder replica given by coupled_feeds.
void couple_encoders(const PipelineModel& model, DecoupledChoice& choice);

/// Holds the best choice so far and searches for a better one. `step` belongs to the caller and
/// must outlive this object.
class DecoupledSearch {
 public:
  DecoupledSearch(DecoupledStep& step, DecoupledChoice choice);

  const DecoupledChoice& choice() const { return choice_; }
  const DecoupledScore& score() const { return score_; }

  /// Adopts `choice` if its score is better.
  void offer(const DecoupledChoice& choice);
  /// Improves the choice by local search with up to `evaluations` simulator evaluations. Changes
  /// are swaps of whole microbatches, moves and swaps of samples between LLM microbatches
  /// (including swaps of samples with similar LLM seconds, which move encoder work only), and moves
  /// between encoder replicas. Small deteriorations are accepted at first.
  void improve(std::int64_t evaluations, Random& random);
  /// Moves a microbatch's samples to fewer encoder replicas if the step does not become longer.
  void save_feeds(std::int64_t evaluations);

 private:
  void index_llm_slots();
  bool change(Random& random);
  bool change_encoders(Random& random);
  bool change_bins(Random& random);
  bool swap_similar(Random& random);
  void begin_change(std::size_t a, std::size_t b);
  void end_change();
  void undo_change();

  DecoupledStep* step_;
  DecoupledChoice choice_;
  DecoupledScore score_;
  std::vector<std::uint32_t> with_media_;
  std::vector<std::uint32_t> by_llm_;       ///< Samples in ascending order of LLM seconds.
  std::vector<std::uint32_t> llm_slot_of_;  ///< [samples]
  // The state before the last change.
  bool changed_bins_ = false;
  std::array<std::size_t, 2> changed_slots_ = {};
  std::array<std::vector<std::uint32_t>, 2> bins_before_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> encoders_before_;
};

}  // namespace isocost
