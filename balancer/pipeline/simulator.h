#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "base/result.h"

namespace isocost {

/// The work of one stage for one microbatch. Gradients of inputs and weights are one backward pass,
/// or two passes if the schedule splits them.
struct StagePass {
  double forward_s = 0;
  double backward_s = 0;              ///< Gradients of the inputs.
  double weights_s = 0;               ///< Gradients of the weights.
  std::int64_t activation_bytes = 0;  ///< Held from the forward pass to the end of the backward.
  std::int64_t working_bytes = 0;     ///< Held in addition while either pass runs.
  std::int64_t output_bytes = 0;      ///< Sent to the next stage, and back as the gradient.
};

/// A collective of a stage's replicas, which goes layer by layer while a pass computes them: a
/// layer's gradients are reduced while those before it are computed, and its weights are gathered
/// while those before it run.
struct LayeredTransfer {
  double seconds = 0;  ///< All layers take these, one after another.
  double layers = 1;   ///< At least 1, of equal seconds. With 1, no pass overlaps with it.

  /// Returns the seconds by which the step becomes longer, with a pass whose layers take equal
  /// parts of `pass_s`. For layers that are reduced in turn, k of n layers are computed after
  /// k·pass_s/n, and the others' transfers follow; the latest end over all k is that of the first
  /// or of the last one.
  double exposed_s(double pass_s) const {
    return std::max(seconds / layers, seconds - pass_s * (1 - 1 / layers));
  }
};

/// The collectives of a stage's replicas in a step.
struct StepTransfers {
  LayeredTransfer gather;  ///< Updated weights, before and during the first pass.
  LayeredTransfer reduce;  ///< Gradients, during and after the last pass.

  /// Returns what no pass overlaps with: one layer's weights come before all passes, and one
  /// layer's gradients leave after them.
  double least_exposed_s() const {
    return gather.seconds / gather.layers + reduce.seconds / reduce.layers;
  }
  /// Returns a lower bound on the end of a stage that is busy for `busy_s`.
  double bound_s(double busy_s) const {
    return std::max(busy_s + least_exposed_s(), gather.seconds + reduce.seconds);
  }
};

/// The replicas of one module. Each is a pipeline of `stages` devices; a tensor-parallel group
/// counts as one device. Stage s holds the model chunks s, s + stages, ...
struct ModulePipeline {
  std::size_t stages = 0;  ///< 0: the module does not exist.
  std::size_t chunks = 1;  ///< Per stage. More than one only for the LLM in kInterleaved1F1B.
  /// [replica][slot × (stages·chunks)]: slots in the order in which they run, and the chunks of a
  /// slot in the order of the model. Encoder replicas may differ in the number of slots.
  std::vector<std::vector<StagePass>> passes;
  StepTransfers transfers = {};  ///< Those that each stage has.

  std::size_t model_chunks() const { return stages * chunks; }
  std::size_t replicas() const { return passes.size(); }
  std::size_t slots(std::size_t replica) const {
    return model_chunks() == 0 ? 0 : passes[replica].size() / model_chunks();
  }
};

/// An encoder slot whose output an LLM microbatch needs, whole or in part. Several feeds may enter
/// one microbatch, and several may leave one slot.
struct Feed {
  std::uint32_t encoder_replica = 0;
  std::uint32_t slot = 0;
  std::uint32_t llm_replica = 0;
  std::uint32_t microbatch = 0;
  std::int64_t bytes = 0;  ///< Sent forward, and back as the gradient.
};

/// A point-to-point link: latency + bytes / rate, concurrent with computation, without contention.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;  ///< 0: transfers take only the latency.

  double seconds(std::int64_t bytes) const {
    return latency_s + (bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0.0);
  }
};

/// One optimizer step. The encoder is optional; its slots follow the LLM's schedule.
struct PipelineStep {
  Schedule schedule = Schedule::k1F1B;
  ModulePipeline encoder;
  ModulePipeline llm;
  std::vector<Feed> feeds;
  Link link;
  /// Microbatches by which the encoder runs further ahead than the LLM's schedule requires. The
  /// encoder holds more activations, and the LLM waits less.
  std::size_t encoder_ahead = 0;
};

/// A pass with its simulated time. `device` indexes PipelineReport::stages.
struct PipelineEvent {
  std::uint32_t device = 0;
  Pass pass;
  double start_s = 0;
  double end_s = 0;
};

/// Totals of one stage of one replica over the step.
struct StageReport {
  bool encoder = false;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  double busy_s = 0;
  double finish_s = 0;  ///< End of the stage's last pass, before gradients are reduced.
  double reduce_s = 0;  ///< Gradient reduction after all replicas have finished the stage.
  std::int64_t peak_activation_bytes = 0;
};

struct PipelineReport {
  double step_s = 0;                ///< Time until the last stage has its reduced gradients.
  double idle_fraction = 0;         ///< 1 - busy / (stages × step).
  std::vector<StageReport> stages;  ///< Encoder replicas first, replica by replica, stage by stage.
  std::vector<PipelineEvent> events;  ///< Each event follows the events that it waits for.

  std::int64_t peak_activation_bytes() const;
};

/// Simulates one step. Every stage runs its passes in the order of its schedule and starts a pass
/// as soon as the stage is free and the pass's inputs have arrived. Not modelled: link contention.
/// Pure, deterministic, runs on the calling thread; O(passes). Errors: kInvalidArgument if shapes
/// are inconsistent, a number is negative or not finite, the schedule cannot run, an encoder slot
/// feeds no microbatch, or slots and microbatches wait for each other.
Result<PipelineReport> simulate(const PipelineStep& step);

/// Returns the feeds of an encoder that works microbatch by microbatch: microbatch m of LLM replica
/// r has the number m·llm_replicas + r and is a slot of encoder replica number mod
/// encoder_replicas. The bytes are 0.
std::vector<Feed> coupled_feeds(std::size_t encoder_replicas, std::size_t llm_replicas,
                                std::size_t microbatches);

/// Adds a slot without work, which feeds the first microbatch, to every encoder replica that has
/// none, because simulate() requires a slot in each. `encoder.passes` must have one row per
/// replica.
void add_idle_slots(PipelineStep& step);

}  // namespace isocost
