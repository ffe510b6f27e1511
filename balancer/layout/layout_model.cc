#include "balancer/layout/layout_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "costmodel/cuts.h"
#include "costmodel/memory.h"
#include "costmodel/predictor.h"

namespace isocost {
namespace {

constexpr double kBf16 = 2;
constexpr double kTensorReductions = 4;  // all-reduces per layer, forward and backward

// Returns the seconds of an all-reduce. A ring over n ranks moves (n - 1) / n of the bytes; the
// latency is that of a tree.
double reduce_seconds(const Cluster& cluster, double bytes, const ModuleDegrees& degrees) {
  if (degrees.data == 1) return 0;
  const auto n = static_cast<double>(degrees.data);
  const double rate = degrees.ranks() <= cluster.gpus_per_node ? cluster.node_bytes_per_s
                                                               : cluster.network_bytes_per_s;
  return bytes * (n - 1) / n / rate + 2 * std::ceil(std::log2(n)) * cluster.latency_s;
}

// Divides whole layers over chunks. The last chunk has other work that is worth `last` layers.
std::vector<std::int64_t> cut_layers(std::int64_t layers, std::size_t chunks, double last) {
  if (chunks == 1) return {layers};
  const double fair = (static_cast<double>(layers) + last) / static_cast<double>(chunks);
  std::vector<std::int64_t> parts;
  const auto on_last = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::lround(fair - last)),
                                                0, layers - static_cast<std::int64_t>(chunks) + 1);
  const std::int64_t others = layers - on_last;
  const auto before = static_cast<std::int64_t>(chunks) - 1;
  for (std::int64_t c = 0; c < before; ++c) {
    // Later chunks take the remainder, because earlier ones hold more microbatches.
    const std::int64_t extra = c >= before - others % before ? 1 : 0;
    parts.push_back(others / before + extra);
  }
  parts.push_back(on_last);
  return parts;
}

// Divides the encoder's layers followed by the LLM's, so that chunks have equal seconds for the
// mean sample.
LayerCut cut_jointly(const JobModel& job, const SampleCost& mean, std::size_t chunks) {
  const double encoder_layer_s = mean.encoder_s / static_cast<double>(job.encoder.layers);
  const double llm_layer_s =
      mean.llm_s / (static_cast<double>(job.llm.layers) + job.llm_head_layers());
  const double total = mean.encoder_s + mean.llm_s;
  LayerCut cut{.encoder = std::vector<std::int64_t>(chunks, 0),
               .llm = std::vector<std::int64_t>(chunks, 0)};
  double before = 0;
  const auto chunk_at = [&](double layer_s) {
    const double middle = total > 0 ? (before + layer_s / 2) / total : 0.0;
    before += layer_s;
    return std::min(chunks - 1, static_cast<std::size_t>(middle * static_cast<double>(chunks)));
  };
  for (std::int64_t i = 0; i < job.encoder.layers; ++i) ++cut.encoder[chunk_at(encoder_layer_s)];
  for (std::int64_t i = 0; i < job.llm.layers; ++i) ++cut.llm[chunk_at(llm_layer_s)];
  return cut;
}

// Returns each chunk's part of a module's work. `head` is the output head in layers, which is on
// the last chunk.
Result<std::vector<double>> shares_of(const std::vector<std::int64_t>& layers,
                                      const Architecture& shape, double head, const char* module) {
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (sum != shape.layers) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: '" + std::string(module) + ".layers' add up to " + std::to_string(sum) +
                     "; " + shape.name + " has " + counted(shape.layers, "layer"));
  }
  const double total = static_cast<double>(shape.layers) + head;
  std::vector<double> shares(layers.begin(), layers.end());
  shares.back() += head;
  for (double& share : shares) share /= total;
  return shares;
}

Status check_module(const Architecture& shape, const ModuleDegrees& degrees, std::size_t chunks,
                    const char* module) {
  if (static_cast<std::size_t>(shape.heads) % degrees.tensor != 0) {
    return Error(ErrorCode::kInvalidArgument, "layout: '" + std::string(module) + ".tensor' is " +
                                                  std::to_string(degrees.tensor) +
                                                  "; it must divide " + shape.name + "'s " +
                                                  counted(shape.heads, "head"));
  }
  if (degrees.pipeline * chunks > static_cast<std::size_t>(shape.layers)) {
    return Error(ErrorCode::kInvalidArgument, "layout: '" + std::string(module) + ".pipeline' is " +
                                                  std::to_string(degrees.pipeline) + " (x " +
                                                  counted(chunks, "chunk") + "); " + shape.name +
                                                  " has " + counted(shape.layers, "layer"));
  }
  return {};
}

TensorCost tensor_cost(const JobModel& job, CostModule module, const Architecture& shape,
                       std::size_t tensor) {
  const ModuleProfile& profile = job.profile.modules.at(static_cast<std::size_t>(module));
  if (const auto share = tensor_share(profile, static_cast<std::int64_t>(tensor))) {
    return {.share = *share};
  }
  const auto t = static_cast<double>(tensor);
  const double bytes = kBf16 * static_cast<double>(shape.width * shape.layers);
  const double rate = tensor <= job.cluster.gpus_per_node ? job.cluster.node_bytes_per_s
                                                          : job.cluster.network_bytes_per_s;
  return {.share = 1 / t, .seconds_per_unit = kTensorReductions * 2 * (t - 1) / t * bytes / rate};
}

// Seconds of a microbatch in addition to those of its samples. They are kernel launches, which
// every rank of a tensor group does.
struct BesideSamples {
  double fixed_s = 0;
  double launches_s = 0;
};

BesideSamples beside_samples(const JobModel& job, CostModule module) {
  const ModulePredictor predictor(job.profile.modules.at(static_cast<std::size_t>(module)));
  return {.fixed_s = predictor.coefficients().per_microbatch, .launches_s = predictor.launches()};
}

BesideSamples larger(const BesideSamples& a, const BesideSamples& b) {
  return {.fixed_s = std::max(a.fixed_s, b.fixed_s),
          .launches_s = std::max(a.launches_s, b.launches_s)};
}

ModuleStages spread_module(const JobModel& job, const Architecture& shape, std::int64_t parameters,
                           const ModuleDegrees& degrees, const BesideSamples& beside,
                           double activation_bytes_per_unit) {
  ModuleStages module;
  module.replicas = degrees.data;
  module.stages = degrees.pipeline;
  module.microbatch_s = beside.fixed_s;
  module.launches_s = beside.launches_s;
  const auto tensor = static_cast<double>(degrees.tensor);
  module.activation_bytes_per_unit = activation_bytes_per_unit / tensor;
  module.output_bytes_per_unit = kBf16 * static_cast<double>(shape.width) / tensor;
  const double of_rank =
      static_cast<double>(parameters) / static_cast<double>(degrees.pipeline) / tensor;
  module.reduce_s =
      reduce_seconds(job.cluster, (StateBytes::kGradient + StateBytes::kWeight) * of_rank, degrees);
  return module;
}

double state_bytes(double parameters, const ModuleDegrees& degrees) {
  return parameters / static_cast<double>(degrees.tensor) *
         (StateBytes::kWeight + StateBytes::kGradient +
          StateBytes::kOptimizer / static_cast<double>(degrees.data));
}

}  // namespace

Result<JobModel> JobModel::create(CostProfile profile) {
  const auto dimensions = [&profile](CostModule module) {
    return profile.modules.at(static_cast<std::size_t>(module)).architecture;
  };
  const CostModule encoder_module =
      dimensions(CostModule::kVision) ? CostModule::kVision : CostModule::kAudio;
  const auto encoder = dimensions(encoder_module);
  const auto llm = dimensions(CostModule::kLlm);
  const bool both =
      encoder_module == CostModule::kVision && profile.source != CostProfile::kBuiltIn;
  const auto second = both ? dimensions(CostModule::kAudio) : std::nullopt;
  if (!encoder || !llm) {
    return Error(ErrorCode::kInvalidArgument,
                 "model profile " + profile.source + ": 'modules." + (llm ? "vision" : "llm") +
                     ".architecture' is missing: a layout needs the module's layers, widths and "
                     "heads; see docs/model_profile.md");
  }
  return JobModel{.profile = std::move(profile),
                  .encoder_module = encoder_module,
                  .encoder = *encoder,
                  .second_encoder = second,
                  .llm = *llm,
                  .cluster = {}};
}

double JobModel::llm_head_layers() const {
  const ModuleProfile& measured = profile.modules.at(static_cast<std::size_t>(CostModule::kLlm));
  return measured.cuts.empty() ? llm.head_layers() : work_outside_layers(measured);
}

std::int64_t JobModel::encoder_parameters() const {
  return encoder.parameters() + (second_encoder ? second_encoder->parameters() : 0);
}

double JobModel::encoder_activation_bytes_per_unit() const {
  const auto of = [this](CostModule module) {
    return activation_bytes_per_unit(profile.modules.at(static_cast<std::size_t>(module)));
  };
  return second_encoder ? std::max(of(encoder_module), of(CostModule::kAudio)) : of(encoder_module);
}

Result<JobModel> JobModel::load(const std::filesystem::path& profile) {
  if (profile.empty()) return JobModel{};
  ISOCOST_ASSIGN(CostProfile its, CostProfile::load(profile));
  return create(std::move(its));
}

LayerCut layer_cut(const JobModel& job, const Layout& layout, const SampleCost& mean_sample) {
  const std::size_t chunks = layout.llm.pipeline * layout.chunks;
  LayerCut cut = layout.layers;
  if (layout.encoder_place == EncoderPlacement::kLlmRanks) {
    return cut.llm.empty() ? cut_jointly(job, mean_sample, chunks) : cut;
  }
  if (cut.llm.empty()) cut.llm = cut_layers(job.llm.layers, chunks, job.llm_head_layers());
  if (cut.encoder.empty()) {
    cut.encoder = cut_layers(job.encoder.layers, layout.encoder.pipeline, 0);
  }
  return cut;
}

Result<PipelineModel> make_pipeline(const JobModel& job, const Layout& layout,
                                    const SampleCost& mean_sample) {
  ISOCOST_TRY(layout.validate());
  ISOCOST_TRY(check_module(job.llm, layout.llm, layout.chunks, "llm"));
  const bool own = layout.encoder_place == EncoderPlacement::kOwnRanks;
  // In one pipeline with the LLM a stage may have no encoder layer, but tensor ranks still divide
  // the heads.
  ModuleDegrees encoder = layout.encoder;
  if (!own) encoder.pipeline = 1;
  ISOCOST_TRY(check_module(job.encoder, encoder, 1, "encoder"));
  if (job.second_encoder) {
    encoder.pipeline = 1;  // cut in the shares of the first encoder
    ISOCOST_TRY(check_module(*job.second_encoder, encoder, 1, "encoder"));
  }
  PipelineModel model;
  model.schedule = layout.schedule;
  model.microbatches = layout.microbatches;
  model.encoder_ahead = layout.encoder_ahead;
  model.encoder = spread_module(
      job, job.encoder, job.encoder_parameters(), layout.encoder,
      larger(beside_samples(job, CostModule::kVision), beside_samples(job, CostModule::kAudio)),
      job.encoder_activation_bytes_per_unit());
  const auto& llm = job.profile.modules.at(static_cast<std::size_t>(CostModule::kLlm));
  model.llm = spread_module(job, job.llm, job.llm.parameters(), layout.llm,
                            beside_samples(job, CostModule::kLlm), activation_bytes_per_unit(llm));
  model.llm.chunks = layout.chunks;
  model.link = {.latency_s = job.cluster.latency_s, .bytes_per_s = job.cluster.network_bytes_per_s};
  if (layout.ranks() <= job.cluster.gpus_per_node) {
    model.link.bytes_per_s = job.cluster.node_bytes_per_s;
  }
  model.feed_bytes_per_llm_unit = model.llm.output_bytes_per_unit;
  const LayerCut cut = layer_cut(job, layout, mean_sample);
  ISOCOST_ASSIGN(model.llm.shares, shares_of(cut.llm, job.llm, job.llm_head_layers(), "llm"));
  ISOCOST_ASSIGN(auto encoder_shares, shares_of(cut.encoder, job.encoder, 0, "encoder"));
  if (own) {
    model.encoder.shares = std::move(encoder_shares);
  } else {
    model.encoder_on_llm = std::move(encoder_shares);
    model.llm.reduce_s += model.encoder.reduce_s;
    model.encoder.reduce_s = 0;
    model.encoder.stages = 0;
  }
  return model;
}

ActivationCaps activation_caps(const JobModel& job, const RankMemory& state, double usable) {
  const double memory = usable * static_cast<double>(job.cluster.gpu_memory);
  const auto left = [memory](std::int64_t bytes) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(memory) - bytes);
  };
  return {.encoder_bytes = left(state.encoder_state), .llm_bytes = left(state.llm_state)};
}

TensorCost encoder_tensor_cost(const JobModel& job, const Layout& layout) {
  return tensor_cost(job, job.encoder_module, job.encoder, layout.encoder.tensor);
}

TensorCost llm_tensor_cost(const JobModel& job, const Layout& layout) {
  return tensor_cost(job, CostModule::kLlm, job.llm, layout.llm.tensor);
}

SampleCost spread_load(const JobModel& job, const Layout& layout, const SampleCost& sample) {
  const TensorCost encoder = encoder_tensor_cost(job, layout);
  const TensorCost llm = llm_tensor_cost(job, layout);
  SampleCost load = sample;
  load.encoder_s =
      encoder.share * sample.encoder_s + encoder.seconds_per_unit * sample.encoder_units;
  load.llm_s = llm.share * sample.llm_s + llm.seconds_per_unit * sample.llm_units;
  return load;
}

RankMemory state_memory(const JobModel& job, const Layout& layout, const PipelineModel& model) {
  const double head = job.llm_head_layers();
  const double total = static_cast<double>(job.llm.layers) + head;
  // Half of the embedding parameters (input) are on the first stage, half (head) on the last.
  const double half = static_cast<double>(job.llm.embedding_parameters) / 2;
  RankMemory memory;
  std::vector<double> stages(layout.llm.pipeline, 0.0);
  for (std::size_t c = 0; c < model.llm.shares.size(); ++c) {
    const bool is_last = c + 1 == model.llm.shares.size();
    const double layers = model.llm.shares[c] * total - (is_last ? head : 0);
    double& stage = stages[c % stages.size()];
    stage += layers * static_cast<double>(job.llm.layer_parameters()) + (is_last ? half : 0);
    if (!model.encoder_on_llm.empty()) {
      stage += model.encoder_on_llm[c] * static_cast<double>(job.encoder_parameters());
    }
  }
  stages.front() += half;
  memory.llm_state = static_cast<std::int64_t>(
      state_bytes(*std::max_element(stages.begin(), stages.end()), layout.llm));
  if (model.encoder.stages > 0) {
    const double share =
        *std::max_element(model.encoder.shares.begin(), model.encoder.shares.end());
    memory.encoder_state = static_cast<std::int64_t>(
        state_bytes(share * static_cast<double>(job.encoder_parameters()), layout.encoder));
  }
  return memory;
}

}  // namespace isocost
