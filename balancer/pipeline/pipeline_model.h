#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/simulator.h"
#include "base/result.h"
#include "costmodel/sample_cost.h"

namespace isocost {

/// How a module is spread: `shares` are the parts of its seconds and activations that its chunks
/// take, and add up to one.
struct ModuleStages {
  std::size_t replicas = 1;
  std::size_t stages = 0;  ///< 0 (encoder only): no stages of its own.
  std::size_t chunks = 1;
  std::vector<double> shares;            ///< [stages × chunks], in the order of the model.
  double microbatch_s = 0;               ///< A microbatch's fixed seconds, whole module.
  double activation_bytes_per_unit = 0;  ///< Whole module, a device's part of it.
  double output_bytes_per_unit = 0;      ///< From chunk to chunk.
  double reduce_s = 0;
  std::vector<double> slowdowns =
      {};  ///< [replicas × stages], what a stage's seconds are multiplied
           ///< by, 0.01 to 100: 1.2 takes 20 % longer. Empty: all 1.

  /// [replicas], each its slowest stage's, which gates a long pipeline. Empty where all are 1.
  std::vector<double> replica_slowdowns() const;
  /// Stages of slowdown 1 that would do as much in the same time as this one of all replicas.
  double capacity(std::size_t stage) const;
};

/// Encoder and LLM, each with degrees of its own, and the LLM's microbatches per replica. Without
/// encoder stages the LLM's chunks do the encoder's work, too: `encoder_on_llm` are the chunks'
/// parts of it.
struct PipelineModel {
  Schedule schedule = Schedule::k1F1B;
  std::size_t microbatches = 1;
  ModuleStages encoder;
  ModuleStages llm;
  std::vector<double> encoder_on_llm;  ///< [LLM chunks], empty: no encoder work there.
  Link link;
  double feed_bytes_per_llm_unit = 0;  ///< Encoder output that enters the LLM.
  std::size_t encoder_ahead = 0;       ///< See PipelineStep.
  double forward_share = 1.0 / 3;      ///< Of seconds; the rest is halved between gradients of
                                       ///< inputs and of weights.

  std::size_t places() const { return llm.replicas * microbatches; }
  /// Errors: kInvalidArgument naming the part that does not fit.
  Status validate() const;
};

/// What activations in flight may take on any stage; 0: no cap.
struct ActivationCaps {
  std::int64_t encoder_bytes = 0;
  std::int64_t llm_bytes = 0;

  bool any() const { return encoder_bytes > 0 || llm_bytes > 0; }
  bool operator==(const ActivationCaps&) const = default;
};

/// Which samples each microbatch holds, in the order in which it runs: [replicas × microbatches],
/// replica by replica.
using MicrobatchBins = std::vector<std::vector<std::uint32_t>>;

/// The step that these microbatches make, encoder and LLM coupled (see coupled_feeds).
PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> loads);

/// Sums over each microbatch's samples.
std::vector<SampleCost> microbatch_loads(std::span<const SampleCost> samples,
                                         const MicrobatchBins& bins);

/// Passes of one microbatch at slowdown 1, in the order of the module's chunks.
void encoder_passes(const PipelineModel& model, const SampleCost& load,
                    std::span<StagePass> passes);
void llm_passes(const PipelineModel& model, const SampleCost& load, std::span<StagePass> passes);

/// Makes passes of this replica, of whole microbatches, take what its stages' slowdowns say.
void slow_down(std::span<StagePass> passes, const ModuleStages& module, std::size_t replica);

/// Seconds that the busiest stage of each kind cannot be below, whatever the partition and order:
/// its share of all samples' work and of the microbatches' fixed seconds, divided over the
/// replicas, and its reduction.
double pipeline_bound(const PipelineModel& model, std::span<const SampleCost> samples);

}  // namespace isocost
