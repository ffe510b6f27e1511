#include "balancer/layout/internal/layout_space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace isocost {
namespace {

constexpr std::size_t kMostEncoderStages = 8;
constexpr std::size_t kMostMicrobatchesPerStage = 16;
// Part of the memory above which more microbatches than these, and more recomputation than the
// least that fits, are tried, which hold less at once.
constexpr double kTightMemory = 0.75;
constexpr double kUsualForward = 1.0 / 3;  // the forward pass's part of a microbatch's seconds
constexpr double kMemoryRounding = 1e-6;   // plans count whole bytes

double count(std::size_t value) { return static_cast<double>(value); }

// Returns the recomputations to try for a module, from the least to the most. A frozen encoder
// keeps nothing that could be computed again.
std::vector<Recompute> recomputations(const LayoutSearchOptions& options, bool encoder) {
  const ModuleTraining& training = encoder ? options.encoder_training : options.llm_training;
  std::vector<Recompute> all = {training.recompute};
  if (encoder && training.weights == TrainedWeights::kNone) return all;
  for (const Recompute more : {Recompute::kSelective, Recompute::kFull}) {
    if (more > training.recompute && more <= options.most_recompute) all.push_back(more);
  }
  return all;
}

// Returns the numbers of replicas over which to shard the weights: one, all of them, and those
// within a machine.
std::vector<std::size_t> shards(const JobModel& job, const LayoutSearchOptions& options,
                                const ModuleDegrees& degrees) {
  std::vector<std::size_t> all = {1};
  if (!options.shard_weights || degrees.pipeline > 1 || degrees.data == 1) return all;
  const std::size_t within = job.cluster.gpus_per_node / degrees.tensor;
  if (within > 1 && within < degrees.data && degrees.data % within == 0) all.push_back(within);
  all.push_back(degrees.data);
  return all;
}

SampleWork sample_work(const JobModel& job, const BatchSummary& batch, const PipelineModel& model,
                       const Layout& layout, bool encoder) {
  const ModuleStages& stages = encoder ? model.encoder : model.llm;
  const SampleCost mean = spread_load(job, layout, batch.mean);
  const double seconds = encoder ? mean.encoder_s : mean.llm_s;
  const double per_unit = stages.activation_bytes_per_unit * stages.shares.front();
  const double largest = encoder ? batch.largest.encoder_units : batch.largest.llm_units;
  return {
      .recompute = (encoder ? layout.encoder_training : layout.llm_training).recompute,
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
                                        const ModuleDegrees& degrees, bool encoder) {
  Layout layout = layout_of(options);
  (encoder ? layout.encoder : layout.llm) = degrees;
  layout.microbatches = options.gpus;  // enough for any data degree of the encoder
  ModuleOption option{.degrees = degrees, .works = {}};
  for (const Recompute recompute : recomputations(options, encoder)) {
    (encoder ? layout.encoder_training : layout.llm_training).recompute = recompute;
    const auto model = make_pipeline(job, layout, batch.mean);
    if (!model) return std::nullopt;
    const RankMemory state = state_memory(job, layout, *model);
    option.transfers = (encoder ? model->encoder : model->llm).transfers;
    if (degrees.shard > 1) {
      option.shards_s = (encoder ? model->encoder : model->llm).launches_s;
    }
    option.state_bytes = static_cast<double>(encoder ? state.encoder_state : state.llm_state);
    option.works.push_back(sample_work(job, batch, *model, layout, encoder));
  }
  return option;
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
        for (const std::size_t shard : shards(job, options, {t, p, d})) {
          auto option = make_option(job, batch, options, {t, p, d, shard}, encoder);
          if (option) all.push_back(*std::move(option));
        }
      }
    }
  }
  return all;
}

/// Collects candidates that may fit the memory.
class Collector {
 public:
  Collector(const JobModel& job, const BatchSummary& batch, const LayoutSearchOptions& options)
      : job_(job),
        batch_(batch),
        options_(options),
        memory_(options.usable_memory * static_cast<double>(job.cluster.gpu_memory)) {
    space_.least_memory = std::numeric_limits<double>::infinity();
  }

  void add_pair(const ModuleOption& encoder, const ModuleOption& llm) {
    const std::size_t stages = encoder.degrees.pipeline + llm.degrees.pipeline;
    const auto bytes = [&](std::size_t m) {
      return std::max(usual_bytes(llm.state_bytes, llm.works.front().activation_bytes, llm.degrees,
                                  m, llm.degrees.pipeline),
                      usual_bytes(encoder.state_bytes, encoder.works.front().activation_bytes,
                                  encoder.degrees, m, stages));
    };
    for (const std::size_t m : counts(llm.degrees.data, stages, bytes)) {
      if (encoder.degrees.data > llm.degrees.data * m) continue;
      ++space_.enumerated;
      const std::size_t of_llm = least_that_fits(llm, llm.degrees.pipeline, m);
      const std::size_t of_encoder = least_that_fits(encoder, stages, m);
      const double for_llm = least_bytes(llm, of_llm, llm.degrees.pipeline, m);
      const double for_encoder = least_bytes(encoder, of_encoder, stages, m);
      if (!admit(std::max(for_llm, for_encoder))) continue;
      add_pair(encoder, of_encoder, llm, of_llm, m);
      // A plan holds more than the least, so a module whose memory is tight also tries more.
      const std::size_t most_llm = is_tight(for_llm) ? llm.works.size() - 1 : of_llm;
      const std::size_t most_encoder =
          is_tight(for_encoder) ? encoder.works.size() - 1 : of_encoder;
      for (std::size_t l = of_llm; l <= most_llm; ++l) {
        for (std::size_t e = of_encoder; e <= most_encoder; ++e) {
          if (l == of_llm && e == of_encoder) continue;
          ++space_.enumerated;
          add_pair(encoder, e, llm, l, m);
        }
      }
    }
  }

  void add_joint(const ModuleDegrees& degrees) {
    Layout layout = layout_of(options_);
    layout.encoder_place = EncoderPlacement::kLlmRanks;
    layout.encoder = layout.llm = degrees;
    const std::vector<Recompute> of_llm = recomputations(options_, false);
    const std::vector<Recompute> of_encoder = recomputations(options_, true);
    std::vector<PipelineModel> models;  // both modules recompute alike, as far as each does
    std::vector<Layout> layouts;
    for (std::size_t i = 0; i < std::max(of_llm.size(), of_encoder.size()); ++i) {
      layout.llm_training.recompute = of_llm[std::min(i, of_llm.size() - 1)];
      layout.encoder_training.recompute = of_encoder[std::min(i, of_encoder.size() - 1)];
      auto model = make_pipeline(job_, layout, batch_.mean);
      if (!model) return;
      models.push_back(*std::move(model));
      layouts.push_back(layout);
    }
    const double state = static_cast<double>(state_memory(job_, layout, models.front()).llm_state);
    const auto bytes = [&](std::size_t m) {
      return usual_bytes(state, joint_activations(models.front(), batch_.mean), degrees, m,
                         degrees.pipeline);
    };
    for (const std::size_t m : counts(degrees.data, degrees.pipeline, bytes)) {
      ++space_.enumerated;
      std::size_t i = 0;
      const auto needed = [&] { return joint_bytes(models[i], layouts[i], m); };
      while (i + 1 < models.size() && !fits(needed())) ++i;
      if (!admit(needed())) continue;
      add_joint(models[i], layouts[i], m);
      while (is_tight(needed()) && i + 1 < models.size()) {
        ++i;
        ++space_.enumerated;
        add_joint(models[i], layouts[i], m);
      }
    }
  }

  LayoutSpace finish() {
    std::stable_sort(space_.candidates.begin(), space_.candidates.end(),
                     [](const LayoutCandidate& a, const LayoutCandidate& b) {
                       return a.estimate_s < b.estimate_s;
                     });
    return std::move(space_);
  }

 private:
  // Returns the bytes of a first stage with equal microbatches, `stages` of which are in flight.
  double usual_bytes(double state, double per_sample, const ModuleDegrees& degrees, std::size_t m,
                     std::size_t stages) const {
    const bool all = options_.schedule == Schedule::kGpipe || stages > m;
    return state + per_sample * count(batch_.samples) / count(degrees.data) *
                       (all ? 1 : count(stages) / count(m));
  }

  // Returns the numbers of microbatches to try with `data` replicas: up to a multiple of the
  // stages, and beyond it while equal microbatches leave little memory.
  template <typename Bytes>
  std::vector<std::size_t> counts(std::size_t data, std::size_t stages, Bytes bytes) const {
    std::vector<std::size_t> tried;
    for (const std::size_t m : microbatch_counts(batch_.samples / data)) {
      const bool more = m > kMostMicrobatchesPerStage * stages;
      if (more && bytes(tried.back()) <= kTightMemory * memory_) break;
      tried.push_back(m);
    }
    return tried;
  }

  // Returns the least share of a replica's activations in a step that some run of consecutive
  // microbatches holds. The run is as long as the number of stages from the given first stage to
  // the LLM's end; that stage holds the activations of every such run at some time. (The share is
  // not stages / microbatches: a plan that places its large microbatches far apart stays below
  // that.)
  double least_share_in_flight(std::size_t microbatches, std::size_t stages) const {
    if (options_.schedule == Schedule::kGpipe) return 1;
    return 1 / count((microbatches + stages - 1) / stages);
  }

  void add_pair(const ModuleOption& encoder, std::size_t of_encoder, const ModuleOption& llm,
                std::size_t of_llm, std::size_t m) {
    const SampleWork& for_encoder = encoder.works[of_encoder];
    const SampleWork& for_llm = llm.works[of_llm];
    LayoutCandidate candidate{.layout = layout_of(options_)};
    Layout& layout = candidate.layout;
    layout.encoder = encoder.degrees;
    layout.llm = llm.degrees;
    layout.encoder_training.recompute = for_encoder.recompute;
    layout.llm_training.recompute = for_llm.recompute;
    layout.microbatches = m;
    const double encoder_s =
        for_encoder.work_s * count(batch_.samples) / count(encoder.degrees.data);
    const double llm_s = for_llm.work_s * count(batch_.samples) / count(llm.degrees.data);
    const double per_microbatch = count(batch_.samples) / count(llm.degrees.data * m);
    const double llm_busy_s = std::max(llm_s, count(m) * llm.shards_s);
    candidate.bound_s =
        std::max(encoder.transfers.bound_s(encoder_s), llm.transfers.bound_s(llm_busy_s));
    // Transfers of the encoder are no bound: microbatches without media have none.
    const double slots = count(llm.degrees.data * m) / count(encoder.degrees.data);
    const double encoder_busy_s = std::max(encoder_s, slots * encoder.shards_s);
    candidate.estimate_s =
        std::max(encoder_busy_s + exposed_s(encoder.transfers, encoder_busy_s / slots),
                 llm_busy_s + exposed_s(llm.transfers, llm_busy_s / count(m))) +
        per_microbatch *
            (for_encoder.pass_s + for_llm.pass_s - std::max(for_encoder.work_s, for_llm.work_s));
    space_.candidates.push_back(std::move(candidate));
  }

  void add_joint(PipelineModel model, Layout layout, std::size_t m) {
    // The bound is evaluated for one sample below, where a microbatch's fixed seconds would count
    // once per sample.
    model.encoder.microbatch_s = model.llm.microbatch_s = 0;
    const double shards_s = layout.llm.shard > 1 ? model.llm.launches_s : 0;
    model.encoder.launches_s = model.llm.launches_s = 0;
    const SampleCost mean = spread_load(job_, layout, batch_.mean);
    layout.microbatches = m;
    const double data = count(layout.llm.data);
    const double per_microbatch = count(batch_.samples) / (data * count(m));
    const StepTransfers transfers = std::exchange(model.llm.transfers, {});
    const double bound = pipeline_bound(model, std::vector<SampleCost>(1, mean));
    LayoutCandidate candidate{.layout = std::move(layout)};
    const double busy_s = std::max(bound * count(batch_.samples), count(m) * shards_s);
    candidate.bound_s = transfers.bound_s(busy_s);
    candidate.estimate_s = busy_s + exposed_s(transfers, busy_s / count(m)) +
                           per_microbatch * (mean.encoder_s + mean.llm_s - bound * data);
    space_.candidates.push_back(std::move(candidate));
  }

  // Returns what equal microbatches do not hide of a stage's transfers.
  static double exposed_s(const StepTransfers& transfers, double microbatch_s) {
    return transfers.gather.exposed_s(kUsualForward * microbatch_s) +
           transfers.reduce.exposed_s((1 - kUsualForward) * microbatch_s);
  }

  static double joint_activations(const PipelineModel& model, const SampleCost& load) {
    return model.llm.activation_bytes_per_unit * model.llm.shares.front() * load.llm_units +
           model.encoder.activation_bytes_per_unit * model.encoder_on_llm.front() *
               load.encoder_units;
  }

  // Returns the least bytes of a rank with both modules in one pipeline: see least_bytes.
  double joint_bytes(const PipelineModel& model, const Layout& layout, std::size_t m) const {
    const double activations = joint_activations(model, batch_.mean) * count(batch_.samples) /
                               count(layout.llm.data) *
                               least_share_in_flight(m, layout.llm.pipeline);
    return static_cast<double>(state_memory(job_, layout, model).llm_state) +
           std::max(
               activations,
               joint_activations(model, batch_.largest) +
                   std::max(model.llm.working_bytes_per_unit * batch_.largest.llm_units,
                            model.encoder.working_bytes_per_unit * batch_.largest.encoder_units));
  }

  bool is_tight(double bytes) const { return bytes >= kTightMemory * memory_; }
  bool fits(double bytes) const { return bytes <= memory_ * (1 + kMemoryRounding); }

  bool admit(double bytes) {
    if (fits(bytes)) return true;
    ++space_.over_memory;
    space_.least_memory = std::min(space_.least_memory, bytes);
    return false;
  }

  // Returns the bytes that every plan of the mean batch needs on the module's first stage; `stages`
  // are those from there to the LLM's end. The state of the module's fullest stage is assumed for
  // all its stages, as in activation_caps. Some replica does at least the mean work, and some
  // microbatch holds the largest sample.
  double least_bytes(const ModuleOption& module, std::size_t work, std::size_t stages,
                     std::size_t m) const {
    const SampleWork& its = module.works[work];
    const double of_replica =
        its.activation_bytes * count(batch_.samples) / count(module.degrees.data);
    return module.state_bytes + std::max(of_replica * least_share_in_flight(m, stages),
                                         its.largest_bytes + its.working_bytes);
  }

  // Returns the least recomputation that may fit, or the most.
  std::size_t least_that_fits(const ModuleOption& module, std::size_t stages, std::size_t m) const {
    std::size_t work = 0;
    while (work + 1 < module.works.size() && !fits(least_bytes(module, work, stages, m))) ++work;
    return work;
  }

  const JobModel& job_;
  const BatchSummary& batch_;
  const LayoutSearchOptions& options_;
  double memory_;
  LayoutSpace space_;
};

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

std::vector<ModuleOption> encoder_options(const JobModel& job, const BatchSummary& batch,
                                          const LayoutSearchOptions& options) {
  return module_options(job, batch, options, true);
}

std::vector<ModuleOption> llm_options(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options) {
  return module_options(job, batch, options, false);
}

std::vector<std::size_t> microbatch_counts(std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t power = 1; power <= most; power *= 2) {
    counts.push_back(power);
    if (power >= 2 && power + power / 2 <= most) counts.push_back(power + power / 2);
  }
  return counts;
}

Status visit_pairs(const JobModel& job, const BatchSummary& batch,
                   const LayoutSearchOptions& options, const LayoutSearchContext& context,
                   std::string_view what,
                   const std::function<void(const ModuleOption&, const ModuleOption&)>& visit) {
  const auto llms = llm_options(job, batch, options);
  std::vector<std::vector<ModuleOption>> encoders(options.gpus + 1);  // by ranks
  for (ModuleOption& encoder : encoder_options(job, batch, options)) {
    encoders[encoder.degrees.ranks()].push_back(encoder);
  }
  const std::size_t tenth = std::max<std::size_t>(1, llms.size() / 10);
  for (std::size_t i = 0; i < llms.size(); ++i) {
    if (context.stop.stop_requested())
      return Error(ErrorCode::kCancelled, "the layout search was stopped");
    for (const ModuleOption& encoder : encoders[options.gpus - llms[i].degrees.ranks()]) {
      visit(encoder, llms[i]);
    }
    const bool report = (i + 1) % tenth == 0 || i + 1 == llms.size();
    if (context.progress && report) context.progress(i + 1, llms.size(), what);
  }
  return {};
}

Result<LayoutSpace> enumerate_layouts(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options,
                                      const LayoutSearchContext& context) {
  Collector collector(job, batch, options);
  ISOCOST_TRY(visit_pairs(job, batch, options, context, "listing layouts",
                          [&](const ModuleOption& encoder, const ModuleOption& llm) {
                            if (llm.degrees.data <= batch.samples) collector.add_pair(encoder, llm);
                          }));
  const auto layers = static_cast<std::size_t>(job.llm.layers);
  for (std::size_t t = 1; t <= job.cluster.gpus_per_node; t *= 2) {
    for (std::size_t p = 1; p <= layers; ++p) {
      const std::size_t data = options.gpus / (t * p);
      if (data * t * p != options.gpus || data > batch.samples || data == 0) continue;
      for (const std::size_t shard : shards(job, options, {t, p, data})) {
        collector.add_joint({t, p, data, shard});
      }
    }
  }
  return collector.finish();
}

bool treats_alike(const Layout& layout) {
  return layout.encoder_place == EncoderPlacement::kLlmRanks ||
         (layout.encoder.tensor == layout.llm.tensor && layout.encoder.data == layout.llm.data);
}

}  // namespace isocost
