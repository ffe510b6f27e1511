#include "balancer/layout/internal/layout_space.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace isocost {
namespace {

constexpr std::size_t kMostEncoderStages = 8;
constexpr std::size_t kMostMicrobatchesPerStage = 16;
// Part of the memory above which more microbatches than these are tried, which hold less at once.
constexpr double kTightMemory = 0.75;
constexpr double kMemoryRounding = 1e-6;  // plans count whole bytes

double count(std::size_t value) { return static_cast<double>(value); }

// Computes the option with the pipeline model that plans use.
ModuleOption make_option(const JobModel& job, const BatchSummary& batch, const PipelineModel& model,
                         const Layout& layout, bool encoder) {
  const ModuleStages& stages = encoder ? model.encoder : model.llm;
  const SampleCost mean = spread_load(job, layout, batch.mean);
  const double seconds = encoder ? mean.encoder_s : mean.llm_s;
  const double busiest = *std::max_element(stages.shares.begin(), stages.shares.end());
  const double per_unit = stages.activation_bytes_per_unit * stages.shares.front();
  const RankMemory state = state_memory(job, layout, model);
  return {
      .degrees = encoder ? layout.encoder : layout.llm,
      .work_s = seconds * busiest,
      .pass_s = seconds,
      .reduce_s = stages.reduce_s,
      .state_bytes = static_cast<double>(encoder ? state.encoder_state : state.llm_state),
      .activation_bytes = per_unit * (encoder ? batch.mean.encoder_units : batch.mean.llm_units),
      .largest_bytes =
          per_unit * (encoder ? batch.largest.encoder_units : batch.largest.llm_units)};
}

std::vector<ModuleOption> module_options(const JobModel& job, const BatchSummary& batch,
                                         std::size_t gpus, bool encoder) {
  const Architecture& shape = encoder ? job.encoder : job.llm;
  const auto layers = static_cast<std::size_t>(shape.layers);
  const std::size_t most_stages = encoder ? std::min(kMostEncoderStages, layers) : layers;
  std::vector<ModuleOption> options;
  for (std::size_t t = 1; t <= std::min(job.cluster.gpus_per_node, gpus); t *= 2) {
    if (static_cast<std::size_t>(shape.heads) % t != 0) continue;
    for (std::size_t p = 1; p <= most_stages && t * p < gpus; ++p) {
      for (std::size_t d = 1; t * p * d < gpus; ++d) {
        Layout layout;
        (encoder ? layout.encoder : layout.llm) = {t, p, d};
        layout.microbatches = gpus;  // enough for any data degree of the encoder
        const auto model = make_pipeline(job, layout, batch.mean);
        if (!model) continue;
        options.push_back(make_option(job, batch, *model, layout, encoder));
      }
    }
  }
  return options;
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
      return std::max(
          usual_bytes(llm.state_bytes, llm.activation_bytes, llm.degrees, m, llm.degrees.pipeline),
          usual_bytes(encoder.state_bytes, encoder.activation_bytes, encoder.degrees, m, stages));
    };
    for (const std::size_t m : counts(llm.degrees.data, stages, bytes)) {
      if (encoder.degrees.data > llm.degrees.data * m) continue;
      ++space_.enumerated;
      const double per_microbatch = count(batch_.samples) / count(llm.degrees.data * m);
      if (!may_fit(encoder, llm, m)) continue;
      LayoutCandidate candidate;
      candidate.layout = {.encoder = encoder.degrees,
                          .llm = llm.degrees,
                          .microbatches = m,
                          .schedule = options_.schedule};
      const double encoder_s = encoder.work_s * count(batch_.samples) / count(encoder.degrees.data);
      const double llm_s = llm.work_s * count(batch_.samples) / count(llm.degrees.data);
      candidate.bound_s = std::max(encoder_s + encoder.reduce_s, llm_s + llm.reduce_s);
      candidate.estimate_s =
          candidate.bound_s +
          per_microbatch * (encoder.pass_s + llm.pass_s - std::max(encoder.work_s, llm.work_s));
      space_.candidates.push_back(candidate);
    }
  }

  void add_joint(std::size_t tensor, std::size_t pipeline, std::size_t data) {
    Layout layout{.encoder_place = EncoderPlacement::kLlmRanks,
                  .encoder = {tensor, pipeline, data},
                  .llm = {tensor, pipeline, data},
                  .schedule = options_.schedule};
    auto model = make_pipeline(job_, layout, batch_.mean);
    if (!model) return;
    // The bound is evaluated for one sample below, where a microbatch's fixed seconds would count
    // once per sample.
    model->encoder.microbatch_s = model->llm.microbatch_s = 0;
    model->encoder.launches_s = model->llm.launches_s = 0;
    const SampleCost mean = spread_load(job_, layout, batch_.mean);
    const double state = static_cast<double>(state_memory(job_, layout, *model).llm_state);
    const auto bytes = [&](std::size_t m) {
      return usual_bytes(state, joint_activations(*model, batch_.mean), layout.llm, m, pipeline);
    };
    for (const std::size_t m : counts(data, pipeline, bytes)) {
      ++space_.enumerated;
      layout.microbatches = m;
      const double per_microbatch = count(batch_.samples) / count(data * m);
      const double activations = joint_activations(*model, batch_.mean) * count(batch_.samples) /
                                 count(data) * least_share_in_flight(m, pipeline);
      const double largest = joint_activations(*model, batch_.largest);
      if (!admit(state + std::max(activations, largest))) continue;
      const double bound =
          pipeline_bound(*model, std::vector<SampleCost>(1, mean)) - model->llm.reduce_s;
      LayoutCandidate candidate{.layout = layout};
      candidate.bound_s = bound * count(batch_.samples) + model->llm.reduce_s;
      candidate.estimate_s =
          candidate.bound_s + per_microbatch * (mean.encoder_s + mean.llm_s - bound * count(data));
      space_.candidates.push_back(candidate);
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

  static double joint_activations(const PipelineModel& model, const SampleCost& load) {
    return model.llm.activation_bytes_per_unit * model.llm.shares.front() * load.llm_units +
           model.encoder.activation_bytes_per_unit * model.encoder_on_llm.front() *
               load.encoder_units;
  }

  bool admit(double bytes) {
    if (bytes <= memory_ * (1 + kMemoryRounding)) return true;
    ++space_.over_memory;
    space_.least_memory = std::min(space_.least_memory, bytes);
    return false;
  }

  // Returns false only if no plan of the mean batch fits the memory. The state of each module's
  // fullest stage is assumed for all its stages, as in activation_caps. Some replica does at least
  // the mean work, and some microbatch holds the largest sample.
  bool may_fit(const ModuleOption& encoder, const ModuleOption& llm, std::size_t m) {
    const auto least_bytes = [&](const ModuleOption& module, std::size_t stages) {
      const double of_replica =
          module.activation_bytes * count(batch_.samples) / count(module.degrees.data);
      return module.state_bytes +
             std::max(of_replica * least_share_in_flight(m, stages), module.largest_bytes);
    };
    const std::size_t stages = encoder.degrees.pipeline + llm.degrees.pipeline;
    return admit(std::max(least_bytes(llm, llm.degrees.pipeline), least_bytes(encoder, stages)));
  }

  const JobModel& job_;
  const BatchSummary& batch_;
  const LayoutSearchOptions& options_;
  double memory_;
  LayoutSpace space_;
};

}  // namespace

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
                                          std::size_t gpus) {
  return module_options(job, batch, gpus, true);
}

std::vector<ModuleOption> llm_options(const JobModel& job, const BatchSummary& batch,
                                      std::size_t gpus) {
  return module_options(job, batch, gpus, false);
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
  const auto llms = llm_options(job, batch, options.gpus);
  std::vector<std::vector<ModuleOption>> encoders(options.gpus + 1);  // by ranks
  for (ModuleOption& encoder : encoder_options(job, batch, options.gpus)) {
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
      if (data * t * p == options.gpus && data <= batch.samples && data > 0) {
        collector.add_joint(t, p, data);
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
