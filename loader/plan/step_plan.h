#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/load.h"
#include "costmodel/cost_model.h"
#include "loader/plan/served_layout.h"
#include "transport/messages.h"

namespace isocost {

/// A sample in a microbatch: an index into the step's samples, and what it weighs in the loss.
struct PlannedSample {
  std::uint32_t slot = 0;
  float weight = 1.0F;  ///< 0: a repeat that keeps a rank busy and counts for nothing.
};

struct PlannedMicrobatch {
  std::vector<PlannedSample> samples;
  Load load;                  ///< As delivered: packed.
  Load run_load;              ///< As the trainer runs it, padding included.
  MicrobatchShape shape;      ///< Of the latter, for measuring it: see Measurement.
  ModuleSeconds predicted{};  ///< All of every module, on a rank of slowdown 1.
  std::vector<Route> routes;  ///< Where the encoder has ranks of its own.
};

/// Which sample of a global batch goes to which microbatch, and who takes them. Receivers are
/// data-parallel ranks, which take whole microbatches, or the receivers of a layout.
struct StepPlan {
  std::uint32_t microbatches = 1;       ///< Of each data-parallel rank or LLM replica.
  std::vector<PlannedMicrobatch> bins;  ///< [replicas × microbatches], replica by replica.
  /// [encoder replicas][microbatches of each, at least one] of an encoder with ranks of its own:
  /// the samples of `bins` that have media.
  std::vector<std::vector<PlannedMicrobatch>> encoder;
  /// Those of the layout, which outlives the plan; empty without one.
  std::span<const Receiver> layout_receivers;
  std::vector<double> slowdowns;  ///< [receivers], what their seconds are multiplied by; beyond: 1.
  std::uint64_t global_label_tokens = 0;  ///< Of samples with weight, each counted once.
  double makespan_s = 0;                  ///< Predicted; of the policy's objective.
  double lower_bound_s = 0;
  double forward_share = 1.0 / 3;  ///< Of a pass forward and backward: what forward takes.
  std::uint64_t hash = 0;          ///< Of the plan's integers: equal plans have equal hashes.
  std::uint32_t profile = 0;       ///< By which of a run's profiles it was priced, counted from 0.

  const PlannedMicrobatch& bin(std::size_t replica, std::uint32_t microbatch) const {
    return bins[replica * microbatches + microbatch];
  }
  std::size_t receivers() const {
    return layout_receivers.empty() ? bins.size() / microbatches : layout_receivers.size();
  }
  std::uint32_t microbatches_of(std::size_t receiver) const;
  const PlannedMicrobatch& microbatch_of(std::size_t receiver, std::uint32_t microbatch) const;
  /// Each sample of a step reaches one receiver that predicts its labels.
  bool predicts(std::size_t receiver) const {
    return layout_receivers.empty() || layout_receivers[receiver].work.predicts;
  }
  /// What the receiver is expected to take for its part of it, at its slowdown.
  ModuleSeconds predicted_of(std::size_t receiver, std::uint32_t microbatch) const;
  /// The same, of all modules; 0 where it has nothing to do.
  double seconds_of(std::size_t receiver, std::uint32_t microbatch) const;
};

}  // namespace isocost
