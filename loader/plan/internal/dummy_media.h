#pragma once

#include <cstdint>
#include <vector>

#include "base/load.h"
#include "loader/plan/planner.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// The dummy samples of one step. Immutable; `input` must outlive it.
class DummyMedia {
 public:
  /// Chooses the dummies of `input` that some microbatch of the step may lack.
  DummyMedia(const PlanInput& input, const PlanOptions& options);

  bool empty() const { return chosen_.empty(); }
  /// Returns the sum of their loads: the most that they add to a microbatch.
  Load load() const;
  /// Adds them to the microbatches that lack them: after the samples, whose places are set.
  void add_to(StepPlan& plan) const;

 private:
  ModalitySet media_of(const PlannedMicrobatch& bin) const;
  void put_shortest_last(PlannedMicrobatch& bin) const;
  ModalitySet needed_at(const StepPlan& plan, std::uint32_t microbatch) const;

  const PlanInput& input_;
  const bool always_;
  std::vector<DummyChoice> chosen_;
};

/// Returns the loads of a microbatch's sequences. A trainer that pads the LLM appends the dummies
/// to the last sample's row; otherwise each is a sequence of its own.
std::vector<Load> with_dummies(std::vector<Load> samples, const std::vector<Load>& dummies,
                               bool padded);

}  // namespace isocost
