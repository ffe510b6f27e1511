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

/// [numbers]: intervals of `width` each.
std::vector<std::uint32_t> even_intervals(std::size_t numbers, std::size_t width);

/// Deals each interval's samples, the longest first, to the encoder replica that has least to do
/// so far: replicas keep abreast of each other at every point of the step.
void deal_to_encoders(const PipelineModel& model, std::span<const SampleCost> samples,
                      DecoupledChoice& choice);

/// Each microbatch's samples to the replica that coupled_feeds name.
void couple_encoders(const PipelineModel& model, DecoupledChoice& choice);

/// The best choice so far, and the search for a better one. `step` stays with the caller.
class DecoupledSearch {
 public:
  DecoupledSearch(DecoupledStep& step, DecoupledChoice choice);

  const DecoupledChoice& choice() const { return choice_; }
  const DecoupledScore& score() const { return score_; }

  /// Takes a choice where it is better; true then.
  bool offer(const DecoupledChoice& choice);
  /// Local search with so many looks: swaps of whole microbatches, moves and swaps of samples
  /// between LLM microbatches (also of samples that take the LLM as long, so that only the
  /// encoder's work moves) and between encoder replicas. Small steps back are allowed at first.
  void improve(std::int64_t looks, Random& random);
  /// Brings a microbatch's samples onto fewer encoder replicas where the step gets no longer.
  void save_feeds(std::int64_t looks);

 private:
  void index_places();
  bool change(Random& random);
  bool change_encoders(Random& random);
  bool change_bins(Random& random);
  bool swap_alike(Random& random);
  void begin_change(std::size_t a, std::size_t b);
  void end_change();
  void take_back();

  DecoupledStep* step_;
  DecoupledChoice choice_;
  DecoupledScore score_;
  std::vector<std::uint32_t> with_media_;
  std::vector<std::uint32_t> by_llm_;    ///< Samples in ascending order of LLM seconds ...
  std::vector<std::uint32_t> llm_rank_;  ///< ... and where in it a sample is.
  std::vector<std::uint32_t> place_of_;  ///< [samples]
  // What the last change was made from.
  bool changed_bins_ = false;
  std::array<std::size_t, 2> places_ = {};
  std::array<std::vector<std::uint32_t>, 2> bins_before_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> encoders_before_;
};

}  // namespace isocost
