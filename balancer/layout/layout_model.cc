#include "balancer/layout/layout_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/layout/internal/sharding.h"
#include "balancer/layout/internal/stage_cut.h"
#include "base/counted.h"
#include "costmodel/cuts.h"
#include "costmodel/memory.h"
#include "costmodel/predictor.h"

namespace isocost {
namespace {

constexpr double kBf16 = 2;

// Returns the seconds in which a ring of n ranks gathers or scatters these bytes, of which it moves
// (n - 1) / n. The latency is that of a tree.
double ring_seconds(const Cluster& cluster, double bytes, const RankGroups& groups) {
  if (groups.members == 1 || bytes == 0) return 0;
  const auto n = static_cast<double>(groups.members);
  return bytes * (n - 1) / n / cluster.ring_bytes_per_s(groups) +
         std::ceil(std::log2(n)) * cluster.latency_s;
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

// Returns each chunk's part of a module's layers. `head` is the output head in layers, which is on
// the last chunk.
std::vector<double> layer_shares(const std::vector<std::int64_t>& layers, double head) {
  const double total =
      static_cast<double>(std::accumulate(layers.begin(), layers.end(), std::int64_t{0})) + head;
  std::vector<double> shares(layers.begin(), layers.end());
  shares.back() += head;
  for (double& share : shares) share /= total;
  return shares;
}

Result<std::vector<double>> shares_of(const std::vector<std::int64_t>& layers,
                                      const Architecture& shape, double head, const char* module) {
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (sum != shape.layers) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: '" + std::string(module) + ".layers' add up to " + std::to_string(sum) +
                     "; " + shape.name + " has " + counted(shape.layers, "layer"));
  }
  return layer_shares(layers, head);
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

const ModuleProfile& profile_of(const JobModel& job, CostModule module) {
  return job.profile.modules.at(static_cast<std::size_t>(module));
}

// Returns the part of a module's seconds that its forward pass took: the median over large loads;
// one third for a profile without measurements.
double forward_share_of(const ModuleProfile& profile) {
  std::int64_t most = 0;
  for (const ProfilePoint& point : profile.points) most = std::max(most, point.load.units);
  std::vector<double> shares;
  for (const ProfilePoint& point : profile.points) {
    if (2 * point.load.units >= most) shares.push_back(point.forward_s / point.seconds());
  }
  if (shares.empty()) return 1.0 / 3;
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  return *middle;
}

// An encoder that was measured without a backward pass is frozen, whatever the layout says.
ModuleTraining encoder_training(const JobModel& job, const Layout& layout) {
  if (!is_frozen(profile_of(job, job.encoder_module))) return layout.encoder_training;
  return {.weights = TrainedWeights::kNone};
}

// The work of a module: of all of it, and of each chunk if stages recompute different activations.
struct ModuleWork {
  TrainingWork all;
  std::vector<TrainingWork> chunks;
};

// `layers` [chunks] may be empty if all stages recompute the same.
ModuleWork module_work(const TrainedModule& module, const ModuleTraining& training,
                       const std::vector<std::int64_t>& layers) {
  ModuleWork work{.all = training_work(module, training), .chunks = {}};
  if (!training.by_stage()) return work;
  TrainingWork& all = work.all;
  all = {.seconds = 0, .passes = {0, 0, 0}, .reductions = 0, .activations = 0};
  const std::vector<double> shares = layer_shares(layers, module.head_layers);
  for (std::size_t c = 0; c < shares.size(); ++c) {
    const TrainingWork chunk = training_work(module, training, c % training.recompute.size());
    const double seconds = shares[c] * chunk.seconds;
    all.seconds += seconds;
    all.passes.forward += seconds * chunk.passes.forward;
    all.passes.inputs += seconds * chunk.passes.inputs;
    all.passes.weights += seconds * chunk.passes.weights;
    all.reductions += shares[c] * chunk.reductions;
    all.activations += shares[c] * chunk.activations;
    all.working = std::max(all.working, chunk.working);
    work.chunks.push_back(chunk);
  }
  for (double* part : {&all.passes.forward, &all.passes.inputs, &all.passes.weights}) {
    *part /= all.seconds;
  }
  return work;
}

TrainedModule trained_encoder(const JobModel& job) {
  return {.shape = job.encoder,
          .forward_share = forward_share_of(profile_of(job, job.encoder_module))};
}

// The LLM's inputs need their gradients, since at least a projector before it is trained.
TrainedModule trained_llm(const JobModel& job) {
  return {.shape = job.llm,
          .head_layers = job.llm_head_layers(),
          .forward_share = forward_share_of(profile_of(job, CostModule::kLlm)),
          .passes_gradients_on = true};
}

ModuleWork encoder_work(const JobModel& job, const Layout& layout) {
  ModuleWork work =
      module_work(trained_encoder(job), encoder_training(job, layout), layout.layers.encoder);
  // The peaks of a frozen encoder are what one layer holds.
  const ModuleProfile& profile = profile_of(job, job.encoder_module);
  if (is_frozen(profile) && activation_bytes_per_unit(profile) > 0) work.all.working = 1;
  return work;
}

ModuleWork llm_work(const JobModel& job, const Layout& layout) {
  return module_work(trained_llm(job), layout.llm_training, layout.layers.llm);
}

// Divides the encoder's layers followed by the LLM's, so that chunks have equal seconds for the
// mean sample.
LayerCut cut_jointly(const JobModel& job, const Layout& layout, const SampleCost& mean,
                     std::size_t chunks) {
  const SampleCost trained = trained_cost(job, layout, mean);
  const double encoder_layer_s = trained.encoder_s / static_cast<double>(job.encoder.layers);
  const double llm_layer_s =
      trained.llm_s / (static_cast<double>(job.llm.layers) + job.llm_head_layers());
  const double total = trained.encoder_s + trained.llm_s;
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

Error unmeasured(const JobModel& job, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "model profile " + job.profile.source + " " + what};
}

// Checks that a module's points tell the passes of a layout apart.
Status check_points(const JobModel& job, CostModule module, const char* name) {
  const ModuleProfile& profile = profile_of(job, module);
  const double forward = forward_share_of(profile);
  if (forward > 0 && (forward < 1 || is_frozen(profile))) return {};
  return unmeasured(
      job, std::string("has points of the ") + name + " with" +
               (forward > 0 ? "out a backward pass beside others with one" : "out a forward pass") +
               ": profile it again");
}

Status check_measured(const JobModel& job, const Layout& layout) {
  const std::string again = ": profile it again with weights that require gradients";
  ISOCOST_TRY(check_points(job, job.encoder_module, "encoder"));
  ISOCOST_TRY(check_points(job, CostModule::kLlm, "LLM"));
  if (is_frozen(profile_of(job, CostModule::kLlm))) {
    return unmeasured(job,
                      "measured the LLM without a backward pass, which a layout needs" + again);
  }
  const bool frozen = is_frozen(profile_of(job, job.encoder_module));
  if (job.second_encoder && frozen != is_frozen(profile_of(job, CostModule::kAudio))) {
    return unmeasured(job,
                      "measured one encoder with a backward pass and one without; a layout trains "
                      "both alike: profile both with weights that require gradients, or neither");
  }
  const bool needed = layout.encoder_training.weights == TrainedWeights::kAdapters ||
                      layout.encoder_training.recomputes() || !layout.encoder_training.reshard;
  if (!frozen || !needed) return {};
  return unmeasured(
      job, "measured the encoder without a backward pass, which this layout needs" + again);
}

TensorCost tensor_cost(const JobModel& job, CostModule module, const Architecture& shape,
                       std::size_t tensor, const TrainingWork& work) {
  if (const auto share = tensor_share(profile_of(job, module), static_cast<std::int64_t>(tensor))) {
    return {.share = *share * work.seconds};
  }
  const auto t = static_cast<double>(tensor);
  const double bytes = kBf16 * static_cast<double>(shape.width * shape.layers);
  const double rate = job.cluster.ring_bytes_per_s({.members = tensor});
  return {.share = work.seconds / t,
          .seconds_per_unit = work.reductions * 2 * (t - 1) / t * bytes / rate};
}

// Seconds of a microbatch in addition to those of its samples. They are kernel launches, which
// every rank of a tensor group does.
struct BesideSamples {
  double fixed_s = 0;
  double launches_s = 0;
};

BesideSamples beside_samples(const JobModel& job, CostModule module) {
  const ModulePredictor predictor(profile_of(job, module));
  return {.fixed_s = predictor.coefficients().per_microbatch, .launches_s = predictor.launches()};
}

// Returns those of the more expensive encoder, of the encoders that the job has.
BesideSamples beside_media(const JobModel& job) {
  const BesideSamples first = beside_samples(job, job.encoder_module);
  if (!job.second_encoder) return first;
  const BesideSamples audio = beside_samples(job, CostModule::kAudio);
  return {.fixed_s = std::max(first.fixed_s, audio.fixed_s),
          .launches_s = std::max(first.launches_s, audio.launches_s)};
}

// Returns the parameters that are trained.
double trained_parameters(double parameters, double adapters, const ModuleTraining& training) {
  return training.weights == TrainedWeights::kAll ? parameters : adapters;
}

// A module as it is trained.
struct TrainedParts {
  const Architecture& shape;
  double parameters = 0;  ///< Adapters apart.
  double trained = 0;
  ModuleWork work;
  double activation_bytes_per_unit = 0;  ///< If it is trained whole.
  bool reshard = true;
};

// Returns the collectives of a stage's replicas. A sharded optimizer scatters gradients, and
// gathers weights before the next step; a replicated one needs all gradients, which are scattered
// and gathered. Sharded weights have scattered theirs already, and groups of shards reduce them
// among each other.
StepTransfers step_transfers(const JobModel& job, const Layout& layout, const TrainedParts& parts,
                             const ModuleDegrees& degrees) {
  const auto shard = static_cast<double>(degrees.shard);
  const RankGroups replicas{.members = degrees.data / (degrees.shard > 1 ? degrees.shard : 1),
                            .stride = degrees.tensor * degrees.shard,
                            .blocks = degrees.pipeline};
  const auto stages = static_cast<double>(degrees.pipeline);
  const double of_rank = parts.trained / stages / static_cast<double>(degrees.tensor) / shard;
  const double layers = std::max(1.0, static_cast<double>(parts.shape.layers) / stages);
  const auto seconds = [&](double bytes) {
    return ring_seconds(job.cluster, bytes * of_rank, replicas);
  };
  const double scatter_s = seconds(StateBytes::kGradient);
  if (degrees.shard > 1 || layout.replicated_optimizer) {
    return {.gather = {}, .reduce = {.seconds = 2 * scatter_s, .layers = layers}};
  }
  return {.gather = {.seconds = seconds(StateBytes::kWeight), .layers = layers},
          .reduce = {.seconds = scatter_s, .layers = layers}};
}

// Returns the transfers of stages that hold layers of both modules.
LayeredTransfer both(const LayeredTransfer& a, const LayeredTransfer& b) {
  if (a.seconds == 0) return b;
  if (b.seconds == 0) return a;
  return {.seconds = a.seconds + b.seconds, .layers = a.layers + b.layers};
}

Sharding sharding_of(const JobModel& job, const TrainedParts& parts, const ModuleDegrees& degrees) {
  return sharding_of(job.cluster,
                     {.shape = parts.shape,
                      .parameters = parts.parameters,
                      .trained = parts.trained,
                      .has_backward = parts.work.all.passes.has_backward(),
                      .reshard = parts.reshard},
                     degrees);
}

ModuleStages spread_module(const JobModel& job, const Layout& layout, const TrainedParts& parts,
                           const ModuleDegrees& degrees, const BesideSamples& beside) {
  const TrainingWork& work = parts.work.all;
  ModuleStages module;
  module.replicas = degrees.data;
  module.stages = degrees.pipeline;
  module.passes = work.passes;
  module.microbatch_s = beside.fixed_s * work.seconds;
  module.launches_s = beside.launches_s * work.seconds;
  module.pass_transfers = sharding_of(job, parts, degrees).transfers;
  const auto tensor = static_cast<double>(degrees.tensor);
  module.activation_bytes_per_unit = work.activations * parts.activation_bytes_per_unit / tensor;
  module.working_bytes_per_unit = work.working * parts.activation_bytes_per_unit / tensor;
  module.output_bytes_per_unit = kBf16 * static_cast<double>(parts.shape.width) / tensor;
  module.transfers = step_transfers(job, layout, parts, degrees);
  return module;
}

// Gives chunks that recompute different activations their own passes and bytes, and their shares of
// the module's seconds in place of those of its layers.
void divide_work(const TrainedParts& parts, const ModuleDegrees& degrees,
                 std::vector<double>& shares, ModuleStages& module) {
  const double bytes = parts.activation_bytes_per_unit / static_cast<double>(degrees.tensor);
  for (std::size_t c = 0; c < parts.work.chunks.size(); ++c) {
    const TrainingWork& work = parts.work.chunks[c];
    module.by_chunk.push_back({.passes = work.passes,
                               .activation_bytes_per_unit = shares[c] * work.activations * bytes,
                               .working_bytes_per_unit = shares[c] > 0 ? work.working * bytes : 0});
    shares[c] *= work.seconds / parts.work.all.seconds;
  }
}

// Returns the bytes of weights, gradients and optimizer on a rank, for `parameters` of which
// `trained` are trained; adapters come in addition to the frozen ones.
double state_bytes(double parameters, double trained, const ModuleDegrees& degrees,
                   const Layout& layout) {
  const auto shard = static_cast<double>(degrees.shard);
  double replicas = static_cast<double>(degrees.data);
  if (degrees.shard > 1) replicas = shard;
  if (layout.replicated_optimizer) replicas = 1;
  const auto tensor = static_cast<double>(degrees.tensor);
  // The master weights of sharded weights are those that are gathered.
  const double weights = degrees.shard > 1 ? parameters - trained : parameters;
  return (StateBytes::kWeight * weights / shard + StateBytes::kGradient * trained / shard +
          StateBytes::kOptimizer * trained / replicas) /
         tensor;
}

double gathered_bytes(const Sharding& sharding) {
  return sharding.kept_bytes + sharding.layer_bytes + sharding.whole_bytes;
}

// One module runs at a time. What the encoder keeps is held while the LLM runs. What the LLM keeps
// is dropped before the encoder runs, unless other microbatches await their backward passes.
double gathered_jointly(const Sharding& encoder, const Sharding& llm, Schedule schedule) {
  const double of_llm = llm.kept_bytes + llm.layer_bytes;
  const double of_encoder =
      encoder.layer_bytes + (schedule == Schedule::kGpipe ? llm.kept_bytes : 0);
  return encoder.kept_bytes + std::max(of_encoder, of_llm) + encoder.whole_bytes + llm.whole_bytes;
}

double encoder_adapters(const JobModel& job, const ModuleTraining& training) {
  return adapter_parameters(job.encoder, training) +
         (job.second_encoder ? adapter_parameters(*job.second_encoder, training) : 0);
}

TrainedParts encoder_parts(const JobModel& job, const Layout& layout) {
  const ModuleTraining training = encoder_training(job, layout);
  const auto parameters = static_cast<double>(job.encoder_parameters());
  return {.shape = job.encoder,
          .parameters = parameters,
          .trained = trained_parameters(parameters, encoder_adapters(job, training), training),
          .work = encoder_work(job, layout),
          .activation_bytes_per_unit = job.encoder_activation_bytes_per_unit(),
          .reshard = training.reshard};
}

TrainedParts llm_parts(const JobModel& job, const Layout& layout) {
  const auto parameters = static_cast<double>(job.llm.parameters());
  return {.shape = job.llm,
          .parameters = parameters,
          .trained = trained_parameters(
              parameters, adapter_parameters(job.llm, layout.llm_training), layout.llm_training),
          .work = llm_work(job, layout),
          .activation_bytes_per_unit = activation_bytes_per_unit(profile_of(job, CostModule::kLlm)),
          .reshard = layout.llm_training.reshard};
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
                     "heads. 'isocost model profile DIR' writes them; to add them by hand, see "
                     "docs/model_profile.md");
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
    return cut.llm.empty() ? cut_jointly(job, layout, mean_sample, chunks) : cut;
  }
  if (cut.llm.empty()) cut.llm = cut_layers(job.llm.layers, chunks, job.llm_head_layers());
  if (cut.encoder.empty()) {
    cut.encoder = cut_layers(job.encoder.layers, layout.encoder.pipeline, 0);
  }
  return cut;
}

LayerCut recomputing_cut(const JobModel& job, const Layout& layout, const SampleCost& mean_sample) {
  const auto layer_seconds = [](const TrainedModule& module, const ModuleTraining& training,
                                double seconds, std::size_t stages) {
    const double layer_s =
        seconds / (static_cast<double>(module.shape.layers) + module.head_layers);
    std::vector<double> all;
    all.reserve(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      all.push_back(layer_s * training_work(module, training, stage).seconds);
    }
    return all;
  };
  const bool joint = layout.encoder_place == EncoderPlacement::kLlmRanks;
  const TrainedModule encoder = trained_encoder(job);
  const TrainedModule llm = trained_llm(job);
  StageCutProblem problem{
      .encoder_layers = joint ? encoder.shape.layers : 0,
      .llm_layers = llm.shape.layers,
      .encoder_layer_s = layer_seconds(encoder, encoder_training(job, layout),
                                       mean_sample.encoder_s, layout.llm.pipeline),
      .llm_layer_s =
          layer_seconds(llm, layout.llm_training, mean_sample.llm_s, layout.llm.pipeline),
      .head_layers = llm.head_layers};
  LayerCut cut = stage_cut(problem);
  if (joint) return cut;
  // An encoder with its own stages is a pipeline of one module, without a head.
  problem = {.llm_layers = encoder.shape.layers,
             .encoder_layer_s = std::vector<double>(layout.encoder.pipeline, 0.0),
             .llm_layer_s = layer_seconds(encoder, encoder_training(job, layout),
                                          mean_sample.encoder_s, layout.encoder.pipeline)};
  cut.encoder = stage_cut(problem).llm;
  return cut;
}

Result<PipelineModel> make_pipeline(const JobModel& job, const Layout& layout,
                                    const SampleCost& mean_sample) {
  ISOCOST_TRY(layout.validate());
  ISOCOST_TRY(check_measured(job, layout));
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
  model.encoder =
      spread_module(job, layout, encoder_parts(job, layout), layout.encoder, beside_media(job));
  model.llm = spread_module(job, layout, llm_parts(job, layout), layout.llm,
                            beside_samples(job, CostModule::kLlm));
  model.llm.chunks = layout.chunks;
  model.link = {.latency_s = job.cluster.latency_s, .bytes_per_s = job.cluster.network_bytes_per_s};
  if (layout.ranks() <= job.cluster.gpus_per_node) {
    model.link.bytes_per_s = job.cluster.node_bytes_per_s;
  }
  model.feed_bytes_per_llm_unit = model.llm.output_bytes_per_unit;
  const LayerCut cut = layer_cut(job, layout, mean_sample);
  ISOCOST_ASSIGN(model.llm.shares, shares_of(cut.llm, job.llm, job.llm_head_layers(), "llm"));
  ISOCOST_ASSIGN(auto encoder_shares, shares_of(cut.encoder, job.encoder, 0, "encoder"));
  divide_work(llm_parts(job, layout), layout.llm, model.llm.shares, model.llm);
  divide_work(encoder_parts(job, layout), layout.encoder, encoder_shares, model.encoder);
  if (own) {
    model.encoder.shares = std::move(encoder_shares);
  } else {
    model.encoder_on_llm = std::move(encoder_shares);
    model.llm.transfers = {
        .gather = both(model.encoder.transfers.gather, model.llm.transfers.gather),
        .reduce = both(model.encoder.transfers.reduce, model.llm.transfers.reduce)};
    model.encoder.transfers = {};
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
  return tensor_cost(job, job.encoder_module, job.encoder, layout.encoder.tensor,
                     encoder_work(job, layout).all);
}

TensorCost llm_tensor_cost(const JobModel& job, const Layout& layout) {
  return tensor_cost(job, CostModule::kLlm, job.llm, layout.llm.tensor, llm_work(job, layout).all);
}

SampleCost trained_cost(const JobModel& job, const Layout& layout, const SampleCost& sample) {
  SampleCost trained = sample;
  trained.encoder_s *= encoder_work(job, layout).all.seconds;
  trained.llm_s *= llm_work(job, layout).all.seconds;
  return trained;
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
  const auto llm_layers = static_cast<double>(job.llm.layers);
  // Half of the embedding parameters (input) are on the first stage, half (head) on the last.
  const double half = static_cast<double>(job.llm.embedding_parameters) / 2;
  const ModuleTraining of_encoder = encoder_training(job, layout);
  const auto encoder_bytes = [&](double share, const ModuleDegrees& degrees) {
    const auto parameters = static_cast<double>(job.encoder_parameters());
    const double adapters = encoder_adapters(job, of_encoder);
    return share * state_bytes(parameters + adapters,
                               trained_parameters(parameters, adapters, of_encoder), degrees,
                               layout);
  };
  const auto llm_bytes = [&](double layers, double embeddings) {
    const double adapters = adapter_parameters(job.llm, layout.llm_training) * layers / llm_layers;
    const double parameters = layers * static_cast<double>(job.llm.layer_parameters()) + embeddings;
    return state_bytes(parameters + adapters,
                       trained_parameters(parameters, adapters, layout.llm_training), layout.llm,
                       layout);
  };
  const bool joint = !model.encoder_on_llm.empty();
  const std::vector<double> llm_shares =
      model.llm.by_chunk.empty() ? model.llm.shares : layer_shares(layout.layers.llm, head);
  std::vector<double> encoder_shares = joint ? model.encoder_on_llm : model.encoder.shares;
  if (!model.encoder.by_chunk.empty()) encoder_shares = layer_shares(layout.layers.encoder, 0);
  RankMemory memory;
  std::vector<double> stages(layout.llm.pipeline, 0.0);
  for (std::size_t c = 0; c < llm_shares.size(); ++c) {
    const bool is_last = c + 1 == llm_shares.size();
    const double layers = llm_shares[c] * total - (is_last ? head : 0);
    double& stage = stages[c % stages.size()];
    stage += llm_bytes(layers, is_last ? half : 0);
    if (joint) stage += encoder_bytes(encoder_shares[c], layout.llm);
  }
  stages.front() += llm_bytes(0, half);
  const Sharding of_llm = sharding_of(job, llm_parts(job, layout), layout.llm);
  const Sharding of_encoders = sharding_of(job, encoder_parts(job, layout), layout.encoder);
  const double gathered =
      joint ? gathered_jointly(of_encoders, of_llm, layout.schedule) : gathered_bytes(of_llm);
  memory.llm_state =
      static_cast<std::int64_t>(*std::max_element(stages.begin(), stages.end()) + gathered);
  if (model.encoder.stages > 0) {
    const double share = *std::max_element(encoder_shares.begin(), encoder_shares.end());
    memory.encoder_state = static_cast<std::int64_t>(encoder_bytes(share, layout.encoder) +
                                                     gathered_bytes(of_encoders));
  }
  return memory;
}

}  // namespace isocost
