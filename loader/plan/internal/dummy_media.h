#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/load.h"
#include "costmodel/cost_model.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/planner.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// The dummy samples of one step. Immutable; `input` must outlive it.
class DummyMedia {
 public:
  /// Chooses the dummies of `input` that some microbatch of the step may lack.
  DummyMedia(const PlanInput& input, const PlanOptions& options);

  bool empty() const { return chosen_.empty(); }
  /// Returns the sum of their loads: the most that they add to a packed microbatch.
  Load load() const;
  /// Returns whether microbatches of these samples ([ranks × microbatches], rank by rank) keep the
  /// limits as they are run with the dummies that they lack. Those of a single sample always do.
  bool keep_limits(const MicrobatchBins& bins, std::size_t microbatches, const CostModel& model,
                   const MicrobatchLimits& limits) const;
  /// Adds them to the microbatches that lack them, after their samples, of which the shortest is
  /// moved to the end: see with_dummies.
  void add_to(StepPlan& plan) const;

 private:
  ModalitySet media_of(const std::vector<std::uint32_t>& bin) const;
  std::vector<ModalitySet> needed(const MicrobatchBins& bins, std::size_t microbatches) const;
  std::vector<std::uint32_t> lacking(const std::vector<std::uint32_t>& bin,
                                     ModalitySet needed) const;
  std::vector<Load> loads_of(const std::vector<std::uint32_t>& bin) const;

  const PlanInput& input_;
  const bool always_;
  std::vector<DummyChoice> chosen_;
};

/// Returns the loads of a microbatch's sequences. A trainer that pads the LLM appends the dummies
/// to the last sample's row, so that the shortest one costs least there; otherwise each is a
/// sequence of its own.
std::vector<Load> with_dummies(std::vector<Load> samples, const std::vector<Load>& dummies,
                               bool padded);

}  // namespace isocost
