#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "base/result.h"

namespace isocost {

/// What one stage does with one microbatch.
struct StagePass {
  double forward_s = 0;
  double backward_s = 0;  ///< Gradients of the inputs ...
  double weights_s = 0;   ///< ... and of the weights: one pass of both, or two where the schedule
                          ///< splits them.
  std::int64_t activation_bytes = 0;  ///< Kept from the forward pass to the end of the backward.
  std::int64_t output_bytes = 0;      ///< Sent to the next stage, and back as its gradient.
};

/// The replicas of one module: each a pipeline of `stages` devices (tensor-parallel groups count as
/// one device). Stage s holds model chunks s, s + stages, ...
struct ModulePipeline {
  std::size_t stages = 0;  ///< 0: there is no such module.
  std::size_t chunks = 1;  ///< More than one for the LLM's stages in kInterleaved1F1B only.
  /// [replica][slot × (stages·chunks)], slot by slot in the order in which slots run, a slot's
  /// chunks in the order of the model. Slots may differ in number between encoder replicas.
  std::vector<std::vector<StagePass>> passes;
  double reduce_s = 0;  ///< Gradient reduction of a stage over the replicas, once all finished it.

  std::size_t model_chunks() const { return stages * chunks; }
  std::size_t replicas() const { return passes.size(); }
  std::size_t slots(std::size_t replica) const {
    return model_chunks() == 0 ? 0 : passes[replica].size() / model_chunks();
  }
};

/// An encoder slot whose output an LLM microbatch needs, whole or in part. Several feeds may enter
/// one microbatch, and leave one slot.
struct Feed {
  std::uint32_t encoder_replica = 0;
  std::uint32_t slot = 0;
  std::uint32_t llm_replica = 0;
  std::uint32_t microbatch = 0;
  std::int64_t bytes = 0;  ///< Sent forth, and back as the gradient.
};

/// Point to point: latency + bytes / rate, beside computation, without contention.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;  ///< 0: transfers cost the latency alone.

  double seconds(std::int64_t bytes) const {
    return latency_s + (bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0.0);
  }
};

/// One optimizer step. An encoder of its own is optional; its slots keep to the LLM's schedule.
struct PipelineStep {
  Schedule schedule = Schedule::k1F1B;
  ModulePipeline encoder;
  ModulePipeline llm;
  std::vector<Feed> feeds;
  Link link;
  /// Microbatches by which the encoder runs further ahead than the LLM's schedule takes them in:
  /// more activations are kept, and the LLM waits less.
  std::size_t encoder_ahead = 0;
};

/// A pass as it ran. `device` indexes PipelineReport::stages.
struct PipelineEvent {
  std::uint32_t device = 0;
  Pass pass;
  double start_s = 0;
  double end_s = 0;
};

/// One stage of one replica over the step.
struct StageReport {
  bool encoder = false;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  double busy_s = 0;
  double finish_s = 0;  ///< Of its last pass, before gradients are reduced.
  double reduce_s = 0;  ///< Gradient reduction, once all replicas have finished this stage.
  std::int64_t peak_activation_bytes = 0;
};

struct PipelineReport {
  double step_s = 0;                ///< Until the last stage has its reduced gradients.
  double idle_share = 0;            ///< 1 - busy / (stages × step).
  std::vector<StageReport> stages;  ///< Encoder replicas first, replica by replica, stage by stage.
  std::vector<PipelineEvent> events;  ///< In an order in which each follows what it waits for.

  std::int64_t peak_activation_bytes() const;
};

/// Runs one step. Every stage keeps to its schedule's order and starts a pass as soon as it is free
/// and the pass's inputs have arrived. Pure; one thread; deterministic; O(passes). Left out: link
/// contention, and reduction that overlaps with the last backward passes. Errors: kInvalidArgument
/// where shapes do not fit, a number is negative or not finite, the schedule cannot run, an encoder
/// slot feeds nothing, or slots and microbatches wait for each other.
Result<PipelineReport> simulate(const PipelineStep& step);

/// Feeds for an encoder that works microbatch by microbatch: microbatch m of LLM replica r,
/// numbered m·llm_replicas + r, is a slot of encoder replica number modulo encoder_replicas. Bytes
/// are 0.
std::vector<Feed> coupled_feeds(std::size_t encoder_replicas, std::size_t llm_replicas,
                                std::size_t microbatches);

/// Gives every encoder replica that has no slots ([encoder.passes] has a row for each) one of no
/// work, which feeds the first microbatch: simulate() wants one.
void add_idle_slots(PipelineStep& step);

}  // namespace isocost
