#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/sample_part.h"
#include "costmodel/cost_model.h"
#include "loader/plan/served_layout.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A sample in a microbatch: its index among the step's samples and its weight in the loss.
struct PlannedSample {
  std::uint32_t index = 0;
  float weight = 1.0F;  ///< Weight in the loss; 0: a repeat, for a rank that would have no sample.
};

/// A dummy sample that microbatches may get: its modality and its load. See PlanInput::dummies.
struct DummyChoice {
  Modality modality = Modality::kImage;
  Load load;
};

struct PlannedMicrobatch {
  std::vector<PlannedSample> samples;
  std::vector<std::uint32_t> dummies;  ///< Indexes into StepPlan::dummies; they follow the samples.
  Load load;                           ///< The load as delivered, packed.
  Load run_load;                       ///< The load as the trainer runs it, with padding.
  MicrobatchShape shape;               ///< Shape of run_load: see Measurement.
  ModuleSeconds predicted{};           ///< Seconds of whole modules on a rank of slowdown 1.
  std::vector<Route> routes;           ///< Empty unless the encoder has ranks of its own.
};

/// A single sample that exceeds a limit of a microbatch, by the model profile in use: its index
/// among the step's samples, and its numbers with the remedy.
struct SampleOverLimit {
  std::uint32_t index = 0;
  std::string reason;
};

/// The assignment of a global batch's samples to microbatches, and of microbatches to receivers.
/// Receivers are data-parallel ranks, which take whole microbatches, or the receivers of a layout.
struct StepPlan {
  std::uint32_t microbatches = 1;       ///< Microbatches per data-parallel rank or LLM replica.
  std::vector<PlannedMicrobatch> bins;  ///< [replicas × microbatches], replica by replica.
  /// [encoder replicas][microbatches of each, at least one]: the samples of `bins` that have media.
  /// Empty unless the encoder has ranks of its own.
  std::vector<std::vector<PlannedMicrobatch>> encoder;
  /// Receivers of the layout, which must outlive the plan; empty without a layout.
  std::span<const Receiver> layout_receivers;
  std::vector<DummyChoice> dummies;  ///< The dummies of PlanInput that the step may need.
  /// Samples that exceed a limit by themselves, and therefore share their microbatches with nothing
  /// that the limit counts. The starting profile would make them bad samples; a later one must not
  /// decide which samples are trained on.
  std::vector<SampleOverLimit> over_limit;
  std::vector<double> slowdowns;          ///< [receivers]; receivers beyond its end have 1.
  std::uint64_t global_label_tokens = 0;  ///< Label tokens, without samples of weight 0.
  double makespan_s = 0;                  ///< Predicted value of the policy's objective.
  double lower_bound_s = 0;
  double forward_share = 1.0 / 3;  ///< Share of forward in a forward and backward pass.
  std::uint64_t hash = 0;          ///< Equal plans have equal hashes.
  /// Number of the model profile it was priced by, from 0.
  std::uint32_t profile_generation = 0;

  const PlannedMicrobatch& bin(std::size_t replica, std::uint32_t microbatch) const {
    return bins[replica * microbatches + microbatch];
  }
  std::size_t receivers() const {
    return layout_receivers.empty() ? bins.size() / microbatches : layout_receivers.size();
  }
  std::uint32_t microbatches_of(std::size_t receiver) const;
  const PlannedMicrobatch& microbatch_of(std::size_t receiver, std::uint32_t microbatch) const;
  /// Returns whether the receiver predicts labels; each sample reaches one that does.
  bool predicts(std::size_t receiver) const {
    return layout_receivers.empty() || layout_receivers[receiver].work.predicts;
  }
  /// Returns the samples of the receiver's microbatch that count as delivered by it: those of
  /// weight above 0 if it predicts labels, and none elsewhere.
  std::uint64_t samples_counted(std::size_t receiver, std::uint32_t microbatch) const;
  /// Returns the seconds predicted for the receiver's part of a microbatch, at its slowdown.
  ModuleSeconds predicted_of(std::size_t receiver, std::uint32_t microbatch) const;
  /// Returns the sum of predicted_of over the modules; 0 if the receiver has no work in the
  /// microbatch.
  double seconds_of(std::size_t receiver, std::uint32_t microbatch) const;
};

}  // namespace isocost
