#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/simulator.h"
#include "base/result.h"
#include "costmodel/sample_cost.h"

namespace isocost {

/// The parts of a module's seconds that its passes take, which add up to one.
struct PassShares {
  double forward = 1.0 / 3;
  double inputs = (1 - 1.0 / 3) / 2;   ///< Gradients of inputs, with what they compute again.
  double weights = (1 - 1.0 / 3) / 2;  ///< Gradients of weights.

  bool operator==(const PassShares&) const = default;
  /// Returns whether there is a backward pass. A frozen module that nothing trained precedes has
  /// none.
  bool has_backward() const { return inputs + weights > 0; }
  /// Returns the shares with a measured part of the forward pass, the rest divided as it was; the
  /// same if there is no backward pass.
  PassShares with_forward(double measured) const;
  /// Returns the shares of a module that was measured as it is trained, which these shares may not
  /// say. A forward part of 1 is that of a frozen module.
  PassShares as_measured(double measured) const;
};

/// Transfers of a microbatch, layer by layer: weights are gathered for its passes, and gradients
/// are scattered after them. A pass takes the longer of computing and of what overlaps with it.
struct PassTransfers {
  double exposed_s = 0;   ///< The first and the last layer's: nothing overlaps with them.
  double forward_s = 0;   ///< Overlap with the forward pass.
  double backward_s = 0;  ///< Overlap with the backward pass.

  /// Returns the seconds by which passes become longer that compute for `compute_s`, this part of
  /// them forward.
  double added_s(double compute_s, double forward_share) const {
    return exposed_s + std::max(0.0, forward_s - forward_share * compute_s) +
           std::max(0.0, backward_s - (1 - forward_share) * compute_s);
  }
  /// Returns the transfers of this many microbatches.
  PassTransfers times(double microbatches) const {
    return {.exposed_s = microbatches * exposed_s,
            .forward_s = microbatches * forward_s,
            .backward_s = microbatches * backward_s};
  }
};

/// The passes and bytes of one chunk of a module.
struct ChunkPasses {
  PassShares passes;
  double activation_bytes_per_unit = 0;
  double working_bytes_per_unit = 0;
};

/// The division of one module over its ranks.
struct ModuleStages {
  std::size_t replicas = 1;
  std::size_t stages = 0;  ///< 0: no stages of its own (encoder only).
  std::size_t chunks = 1;  ///< Model chunks per stage.
  /// [stages × chunks], in the order of the model: each chunk's part of the module's seconds and
  /// activations. The shares add up to one.
  std::vector<double> shares;
  double microbatch_s = 0;  ///< Fixed seconds of a microbatch, whole module.
  double launches_s = 0;    ///< A microbatch takes at least these, whole module.
  /// Transfers of a microbatch, whole module. `microbatch_s` does not have the exposed ones.
  PassTransfers pass_transfers = {};
  PassShares passes = {};
  double activation_bytes_per_unit = 0;  ///< Whole module, on one tensor rank.
  /// Held by a chunk with layers of the module while it runs a pass, beside what it keeps.
  double working_bytes_per_unit = 0;
  /// [chunks], in place of the three above where stages recompute different activations; for an
  /// encoder on the LLM's stages, in the LLM's chunks. Empty: chunks differ by their share alone.
  std::vector<ChunkPasses> by_chunk = {};
  double output_bytes_per_unit = 0;  ///< Sent from chunk to chunk.
  StepTransfers transfers = {};      ///< Each stage's gradients and weights.
  /// [replicas × stages], the factor on a stage's seconds, 0.01 to 100: 1.2 takes 20 % longer.
  /// Empty: all 1.
  std::vector<double> slowdowns = {};

  /// Returns the least seconds of a microbatch beside those of its samples.
  double beside_samples_s() const { return microbatch_s + pass_transfers.exposed_s; }
  /// Returns the seconds of a microbatch, whole module, whose samples take these.
  double microbatch_seconds(double samples_s) const {
    const double compute_s = samples_s + microbatch_s;
    return std::max(launches_s, compute_s + pass_transfers.added_s(compute_s, passes.forward));
  }
  /// Returns the passes and bytes of a chunk with this share of the module.
  ChunkPasses of_chunk(std::size_t chunk, double share) const;
  /// Returns the slowdown of each replica's slowest stage [replicas], which limits a long pipeline,
  /// or an empty vector if all slowdowns are 1.
  std::vector<double> replica_slowdowns() const;
  /// Returns the throughput of this stage over all replicas, in stages of slowdown 1.
  double capacity(std::size_t stage) const;
};

/// The pipelines of a job: encoder and LLM with their own degrees, and the number of microbatches
/// of each LLM replica.
struct PipelineModel {
  Schedule schedule = Schedule::k1F1B;
  std::size_t microbatches = 1;
  ModuleStages encoder;
  ModuleStages llm;
  /// [LLM chunks]: each chunk's part of the encoder's work if the encoder has no stages of its own.
  /// Empty: no encoder work on LLM stages.
  std::vector<double> encoder_on_llm;
  Link link;
  double feed_bytes_per_llm_unit = 0;  ///< Encoder output sent to the LLM.
  std::size_t encoder_ahead = 0;       ///< See PipelineStep.

  /// Returns the number of microbatches of a step over all LLM replicas.
  std::size_t slots() const { return llm.replicas * microbatches; }
  /// Checks the model. Errors: kInvalidArgument naming the part that is inconsistent.
  Status validate() const;
};

/// Caps on the activations that any stage holds at once; 0: no cap.
struct ActivationCaps {
  std::int64_t encoder_bytes = 0;
  std::int64_t llm_bytes = 0;

  bool any() const { return encoder_bytes > 0 || llm_bytes > 0; }
  bool operator==(const ActivationCaps&) const = default;
};

/// The samples of each microbatch, in the order in which microbatches run: [replicas ×
/// microbatches], replica by replica.
using MicrobatchBins = std::vector<std::vector<std::uint32_t>>;

/// Returns the step of these microbatches with encoder and LLM coupled (see coupled_feeds).
/// `loads` [slots] is in the order of MicrobatchBins.
PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> loads);

/// Returns the summed cost of each microbatch's samples.
std::vector<SampleCost> microbatch_loads(std::span<const SampleCost> samples,
                                         const MicrobatchBins& bins);

/// Writes the passes of one microbatch at slowdown 1, one for each of the module's chunks in the
/// order of the model.
void encoder_passes(const PipelineModel& model, const SampleCost& load,
                    std::span<StagePass> passes);
void llm_passes(const PipelineModel& model, const SampleCost& load, std::span<StagePass> passes);

/// Multiplies the seconds of this replica's passes by its stages' slowdowns. `passes` holds whole
/// microbatches.
void slow_down(std::span<StagePass> passes, const ModuleStages& module, std::size_t replica);

/// Returns a lower bound on the step, for any division and order: the busiest stage's share of all
/// samples' work and of the microbatches' fixed seconds, divided over the replicas, plus the layers
/// that are gathered before it and reduced after it.
double pipeline_bound(const PipelineModel& model, std::span<const SampleCost> samples);

}  // namespace isocost
