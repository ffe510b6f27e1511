#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "balancer/layout/cluster.h"
#include "balancer/layout/layout.h"
#include "balancer/pipeline/pipeline_model.h"
#include "base/result.h"
#include "costmodel/architecture.h"
#include "costmodel/profile.h"

namespace isocost {

/// The inputs from which a layout's seconds and bytes are predicted: a model profile for one rank,
/// the modules' dimensions, and the machines. Default: the built-in profile.
struct JobModel {
  /// Builds the model from a profile. Vision and audio are treated as one encoder. It is cut into
  /// stages by vision's layers if the profile has vision's dimensions, else by audio's. If the
  /// profile has both, both encoders' parameters are on every stage in the same shares, both
  /// numbers of heads limit the tensor degree, and a unit keeps the activations of the more
  /// expensive encoder. The built-in profile describes a job of vision and LLM,
  /// so audio's parameters do not count there. Errors: kInvalidArgument if the dimensions of an
  /// encoder or of the LLM are missing.
  static Result<JobModel> create(CostProfile profile);
  /// Loads the profile from a file, or uses the built-in profile if `profile` is empty. Errors:
  /// those of CostProfile::load() and create().
  static Result<JobModel> load(const std::filesystem::path& profile);

  CostProfile profile = CostProfile::stated_default();
  /// Returns the parameters of both encoders together.
  std::int64_t encoder_parameters() const;
  /// Returns the LLM's output head as a number of layers: by seconds if the profile also measured
  /// the LLM with fewer layers, else by FLOP.
  double llm_head_layers() const;
  /// Returns the activation bytes per unit over all encoder layers, for the more expensive encoder.
  double encoder_activation_bytes_per_unit() const;

  CostModule encoder_module =
      CostModule::kVision;  ///< The module whose layers are cut into stages.
  Architecture encoder = Architecture::siglip_so400m();
  std::optional<Architecture> second_encoder;  ///< Audio, if vision is `encoder`.
  Architecture llm = Architecture::qwen2_5_7b();
  Cluster cluster;
};

/// Bytes of a rank that do not depend on the data (weights, gradients, optimizer).
struct RankMemory {
  std::int64_t encoder_state =
      0;  ///< State of the fullest encoder rank; 0 if it shares the LLM's ranks.
  std::int64_t llm_state = 0;  ///< State of the fullest LLM rank.
};

/// Divides whole layers over stages. Uses the layout's own cut if it has one. Otherwise, the LLM's
/// layers are divided as evenly as possible with the output head counted, and later stages take the
/// remainder; both modules in one pipeline are divided by the seconds of the mean sample. `layout`
/// must not have more stages than the modules have layers.
LayerCut layer_cut(const JobModel& job, const Layout& layout, const SampleCost& mean_sample);

/// Divides whole layers over stages that recompute different activations, one chunk in each, so
/// that the longest stage takes as few seconds of the mean sample as possible.
LayerCut recomputing_cut(const JobModel& job, const Layout& layout, const SampleCost& mean_sample);

/// Returns the pipeline of a job with this layout, cut by layer_cut(). An encoder that the profile
/// measured without a backward pass is frozen. Errors: those of Layout::validate();
/// kInvalidArgument if a tensor degree does not divide the heads, if there are more stages than
/// layers, if the layout's cut does not add up to the model's layers, or if the profile measured no
/// backward pass where the layout needs one.
Result<PipelineModel> make_pipeline(const JobModel& job, const Layout& layout,
                                    const SampleCost& mean_sample);

/// Returns the memory that a layout's state leaves for activations: the part `usable` of a GPU's
/// memory, minus the state, at least one byte. All stages of a module have one cap, which assumes
/// the state of the fullest stage. This is conservative if another stage has more activations.
ActivationCaps activation_caps(const JobModel& job, const RankMemory& state, double usable);

/// Seconds of a module on one of its tensor ranks, from those on a single rank:
/// share·seconds + seconds_per_unit·units.
struct TensorCost {
  double share = 1;
  double seconds_per_unit = 0;
};
/// Return the tensor cost of the encoder and of the LLM in a layout: measured if the profile has it
/// (tensor_share), else an equal part of the work plus the all-reduces.
TensorCost encoder_tensor_cost(const JobModel& job, const Layout& layout);
TensorCost llm_tensor_cost(const JobModel& job, const Layout& layout);

/// Returns the cost of a sample on a single rank, with the modules trained as in the layout: the
/// profile's seconds are those of modules that are trained whole and keep their activations.
SampleCost trained_cost(const JobModel& job, const Layout& layout, const SampleCost& sample);

/// Converts a sample's cost on a single rank to its cost on each tensor rank of a layout.
SampleCost spread_load(const JobModel& job, const Layout& layout, const SampleCost& sample);

/// Returns the state of each module's fullest rank. Every replica holds bf16 weights, and fp32
/// gradients of those that are trained; their fp32 master weights and two moments are divided over
/// the data degree, unless the layout replicates them.
RankMemory state_memory(const JobModel& job, const Layout& layout, const PipelineModel& model);

}  // namespace isocost
