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

/// What predicts a job: seconds (a profile measured or stated for one rank), dimensions, machines.
struct JobModel {
  /// Of a profile. Vision and audio are one encoder, cut into stages by vision's layers where the
  /// profile has its dimensions, else by audio's; where it has both, both encoders' parameters
  /// count on every stage in the same shares, both heads limit the tensor degree, and a unit keeps
  /// the more expensive one's activations. Of the stated default ("default"), audio's do not count:
  /// it stands for a job of vision and LLM. Errors: kInvalidArgument where it lacks an encoder's or
  /// the LLM's.
  static Result<JobModel> create(CostProfile profile);
  /// Of a profile's file; of the stated default where it is empty. Errors: those of
  /// CostProfile::load, too.
  static Result<JobModel> load(const std::filesystem::path& profile);

  CostProfile profile = CostProfile::stated_default();
  /// Of both encoders.
  std::int64_t encoder_parameters() const;
  /// The LLM's output head as a number of layers: by seconds where the profile measured fewer
  /// layers, too, else by FLOP.
  double llm_head_layers() const;
  /// What a unit keeps on all layers of the encoder, the more expensive one's.
  double encoder_activation_bytes_per_unit() const;

  Module encoder_module = Module::kVision;  ///< Whose layers are cut.
  Architecture encoder = Architecture::siglip_so400m();
  std::optional<Architecture> second_encoder;  ///< Audio's beside vision's.
  Architecture llm = Architecture::qwen2_5_7b();
  Cluster cluster;
};

/// Bytes of a rank that do not depend on the data.
struct RankMemory {
  std::int64_t encoder_state = 0;  ///< Of the fullest encoder rank; 0 where it shares the LLM's.
  std::int64_t llm_state = 0;      ///< Of the fullest LLM rank.
};

/// Whole layers to stages: the layout's own cut where it has one. Else of the LLM as even as they
/// go with the output head counted, later stages the more; of both modules in one pipeline as the
/// mean sample's seconds ask. `layout` has no more stages than the modules layers.
LayerCut layer_cut(const JobModel& job, const Layout& layout, const SampleCost& mean_sample);

/// The pipeline that a layout makes of a model, cut as layer_cut says. Errors: those of
/// Layout::validate; kInvalidArgument where a tensor degree does not divide the heads, there are
/// more stages than layers, or the layout's cut has not the model's layers.
Result<PipelineModel> make_pipeline(const JobModel& job, const Layout& layout,
                                    const SampleCost& mean_sample);

/// What activations may take beside a layout's state: `usable` of a GPU's memory, at least a byte.
/// One cap for all stages of a module, beside the state of the fullest: on the safe side where
/// another stage has more activations.
ActivationCaps activation_caps(const JobModel& job, const RankMemory& state, double usable);

/// What tensor ranks make of a module's seconds on one rank: share·seconds +
/// seconds_per_unit·units.
struct TensorCost {
  double share = 1;
  double seconds_per_unit = 0;
};
/// Of the encoder and of the LLM in a layout: as the profile measured it (tensor_share), else an
/// even part and the all-reduces that this costs.
TensorCost encoder_tensor_cost(const JobModel& job, const Layout& layout);
TensorCost llm_tensor_cost(const JobModel& job, const Layout& layout);

/// A sample's seconds in a layout: those of the profile, on each of its tensor ranks.
SampleCost spread_load(const JobModel& job, const Layout& layout, const SampleCost& sample);

/// Weights, gradients and optimizer state: bf16 weights and fp32 gradients whole on every replica,
/// fp32 master weights and two moments divided over the data degree.
RankMemory state_memory(const JobModel& job, const Layout& layout, const PipelineModel& model);

}  // namespace isocost
