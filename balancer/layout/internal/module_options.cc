#include "balancer/layout/internal/module_options.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace isocost {
namespace {

constexpr std::size_t kMostEncoderStages = 8;
constexpr double kLeastSaved = 1e-3;  // part of the seconds that gathering once has to save

SampleWork sample_work(const JobModel& job, const BatchSummary& batch, const PipelineModel& model,
                       const Layout& layout, bool encoder) {
  const ModuleStages& stages = encoder ? model.encoder : model.llm;
  const SampleCost mean = spread_load(job, layout, batch.mean);
  const double seconds = encoder ? mean.encoder_s : mean.llm_s;
  const double per_unit = stages.activation_bytes_per_unit * stages.shares.front();
  const double largest = encoder ? batch.largest.encoder_units : batch.largest.llm_units;
  return {
      .recompute = (encoder ? layout.encoder_training : layout.llm_training).recompute.front(),
      .forward = stages.passes.forward,
      .work_s = seconds * *std::max_element(stages.shares.begin(), stages.shares.end()),
      .pass_s = seconds,
      .activation_bytes = per_unit * (encoder ? batch.mean.encoder_units : batch.mean.llm_units),
      .largest_bytes = per_unit * largest,
      .working_bytes = stages.working_bytes_per_unit * largest};
}

// Computes the option with the pipeline model that plans use. Returns nothing if the model does not
// allow the degrees.
std::optional<ModuleOption> make_option(const JobModel& job, const BatchSummary& batch,
                                        const LayoutSearchOptions& options,
                                        const ModuleDegrees& degrees, bool reshard, bool encoder) {
  Layout layout = layout_of(options);
  (encoder ? layout.encoder : layout.llm) = degrees;
  layout.microbatches = options.gpus;  // enough for any data degree of the encoder
  ModuleTraining& training = encoder ? layout.encoder_training : layout.llm_training;
  training.reshard = reshard;
  ModuleOption option{.degrees = degrees, .reshard = reshard, .works = {}};
  for (const Recompute recompute : recomputations(options, encoder)) {
    training.recompute = {recompute};
    const auto model = make_pipeline(job, layout, batch.mean);
    if (!model) return std::nullopt;
    const RankMemory state = state_memory(job, layout, *model);
    option.transfers = (encoder ? model->encoder : model->llm).transfers;
    option.shards = (encoder ? model->encoder : model->llm).pass_transfers;
    option.state_bytes = static_cast<double>(encoder ? state.encoder_state : state.llm_state);
    option.works.push_back(sample_work(job, batch, *model, layout, encoder));
  }
  return option;
}

// Adds the options of these degrees, whose weights are sharded or not.
void add_options(const JobModel& job, const BatchSummary& batch, const LayoutSearchOptions& options,
                 ModuleDegrees degrees, bool encoder, std::vector<ModuleOption>& all) {
  for (const std::size_t shard : shards(job, options, degrees)) {
    degrees.shard = shard;
    for (const bool reshard : reshardings(options, degrees, encoder)) {
      auto option = make_option(job, batch, options, degrees, reshard, encoder);
      if (option) all.push_back(*std::move(option));
    }
  }
}

std::vector<ModuleOption> module_options(const JobModel& job, const BatchSummary& batch,
                                         const LayoutSearchOptions& options, bool encoder) {
  const Architecture& shape = encoder ? job.encoder : job.llm;
  const auto layers = static_cast<std::size_t>(shape.layers);
  const std::size_t gpus = options.gpus;
  const std::size_t most_stages = encoder ? std::min(kMostEncoderStages, layers) : layers;
  std::vector<ModuleOption> all;
  for (std::size_t t = 1; t <= std::min(job.cluster.gpus_per_node, gpus); t *= 2) {
    if (static_cast<std::size_t>(shape.heads) % t != 0) continue;
    for (std::size_t p = 1; p <= most_stages && t * p < gpus; ++p) {
      for (std::size_t d = 1; t * p * d < gpus; ++d) {
        add_options(job, batch, options, {t, p, d}, encoder, all);
      }
    }
  }
  return all;
}

}  // namespace

Layout layout_of(const LayoutSearchOptions& options) {
  Layout layout;
  layout.encoder_training = options.encoder_training;
  layout.llm_training = options.llm_training;
  layout.replicated_optimizer = options.replicated_optimizer;
  layout.schedule = options.schedule;
  return layout;
}

BatchSummary BatchSummary::of(std::span<const std::vector<SampleCost>> batches) {
  BatchSummary summary;
  double n = 0;
  for (const auto& batch : batches) {
    summary.samples = batch.size();
    for (const SampleCost& load : batch) {
      summary.mean += load;
      n += 1;
      SampleCost& most = summary.largest;
      most.encoder_s = std::max(most.encoder_s, load.encoder_s);
      most.llm_s = std::max(most.llm_s, load.llm_s);
      most.encoder_units = std::max(most.encoder_units, load.encoder_units);
      most.llm_units = std::max(most.llm_units, load.llm_units);
    }
  }
  summary.mean.encoder_s /= n;
  summary.mean.llm_s /= n;
  summary.mean.encoder_units /= n;
  summary.mean.llm_units /= n;
  return summary;
}

// A frozen encoder keeps nothing that could be computed again.
std::vector<Recompute> recomputations(const LayoutSearchOptions& options, bool encoder) {
  const ModuleTraining& training = encoder ? options.encoder_training : options.llm_training;
  const Recompute least = training.recompute.front();
  std::vector<Recompute> all = {least};
  if (encoder && training.weights == TrainedWeights::kNone) return all;
  for (const Recompute more : {Recompute::kSelective, Recompute::kFull}) {
    if (more > least && more <= options.most_recompute) all.push_back(more);
  }
  return all;
}

std::vector<std::size_t> shards(const JobModel& job, const LayoutSearchOptions& options,
                                const ModuleDegrees& degrees) {
  std::vector<std::size_t> all = {1};
  if (!options.shard_weights || degrees.pipeline > 1 || degrees.data == 1) return all;
  const std::size_t within = job.cluster.gpus_per_node / degrees.tensor;
  if (within > 1 && within < degrees.data && degrees.data % within == 0) all.push_back(within);
  all.push_back(degrees.data);
  return all;
}

std::vector<bool> reshardings(const LayoutSearchOptions& options, const ModuleDegrees& degrees,
                              bool encoder) {
  const bool frozen = encoder && options.encoder_training.weights == TrainedWeights::kNone;
  if (degrees.shard == 1 || frozen) return {true};
  return {true, false};
}

bool saves_gathering(const PassTransfers& once, double busy_s, double forward) {
  PassTransfers twice = once;
  twice.backward_s += once.forward_s;
  const double saved_s = twice.added_s(busy_s, forward) - once.added_s(busy_s, forward);
  return saved_s > kLeastSaved * busy_s;
}

std::vector<ModuleOption> encoder_options(const JobModel& job, const BatchSummary& batch,
                                          const LayoutSearchOptions& options) {
  return module_options(job, batch, options, true);
}

std::vector<ModuleOption> llm_options(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options) {
  return module_options(job, batch, options, false);
}

}  // namespace isocost
