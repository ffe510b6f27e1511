#include "balancer/layout/internal/layout_space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "balancer/layout/framework.h"

namespace isocost {
namespace {

constexpr std::size_t kMostMicrobatchesPerStage = 16;
// Part of the memory above which more microbatches than these, and more recomputation than the
// least that fits, are tried, which hold less at once.
constexpr double kTightMemory = 0.75;
constexpr double kUsualForward = 1.0 / 3;  // the forward pass's part of a microbatch's seconds
// Stages whose layers are not whole, and whose reductions are divided by seconds, may be shorter.
constexpr double kStagedBound = 0.98;
constexpr double kMemoryRounding = 1e-6;  // plans count whole bytes

double count(std::size_t value) { return static_cast<double>(value); }

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
      if (!is_worthwhile(llm, count(m)) || !is_worthwhile(encoder, slots_of(encoder, llm, m)))
        continue;
      ++space_.enumerated;
      const std::size_t of_llm = least_that_fits(llm, llm.degrees.pipeline, m);
      const std::size_t of_encoder = least_that_fits(encoder, stages, m);
      const double for_llm = least_bytes(llm, of_llm, llm.degrees.pipeline, m);
      const double for_encoder = least_bytes(encoder, of_encoder, stages, m);
      if (!admit(std::max(for_llm, for_encoder))) continue;
      add_pair(encoder, of_encoder, llm, of_llm, m);
      add_pair_by_stage(encoder, of_encoder, llm, of_llm, m);
      // A plan holds more than the least, so a module whose memory is tight also tries more.
      const std::size_t most_llm = is_tight(for_llm) ? llm.works.size() - 1 : of_llm;
      const std::size_t most_encoder =
          is_tight(for_encoder) ? encoder.works.size() - 1 : of_encoder;
      for (std::size_t l = of_llm; l <= most_llm; ++l) {
        for (std::size_t e = of_encoder; e <= most_encoder; ++e) {
          if (l == of_llm && e == of_encoder) continue;
          ++space_.enumerated;
          add_pair(encoder, e, llm, l, m);
          add_pair_by_stage(encoder, e, llm, l, m);
        }
      }
    }
  }

  void add_joint(const ModuleDegrees& degrees) {
    if (!runs(options_.framework, job_, degrees)) return;
    for (const bool llm : reshardings(options_, degrees, false)) {
      for (const bool encoder : reshardings(options_, degrees, true)) {
        Layout layout = layout_of(options_);
        layout.encoder_training.reshard = encoder;
        layout.llm_training.reshard = llm;
        add_joint(degrees, std::move(layout));
      }
    }
  }

  void add_joint(const ModuleDegrees& degrees, Layout layout) {
    layout.encoder_place = EncoderPlacement::kLlmRanks;
    layout.encoder = layout.llm = degrees;
    std::vector<PipelineModel> models;
    std::vector<Layout> layouts;
    for (std::size_t level = 0; level < joint_levels(); ++level) {
      recompute_jointly({level}, layout);
      const Layout fitted = fit_to(options_.framework, job_, layout);
      auto model = make_pipeline(job_, fitted, batch_.mean);
      if (!model) return;
      models.push_back(*std::move(model));
      layouts.push_back(fitted);
    }
    const double state =
        static_cast<double>(state_memory(job_, layouts.front(), models.front()).llm_state);
    const auto bytes = [&](std::size_t m) {
      return usual_bytes(state, joint_activations(models.front(), batch_.mean), degrees, m,
                         degrees.pipeline);
    };
    for (const std::size_t m : counts(degrees.data, degrees.pipeline, bytes)) {
      if (!is_worthwhile(models.front(), layouts.front(), m)) continue;
      ++space_.enumerated;
      std::size_t i = 0;
      const auto needed = [&] { return joint_bytes(models[i], layouts[i], m); };
      while (i + 1 < models.size() && !fits(needed())) ++i;
      if (!admit(needed())) continue;
      add_joint(models[i], layouts[i], m);
      add_joint_by_stage(models, layouts, i, m);
      while (is_tight(needed()) && i + 1 < models.size()) {
        ++i;
        ++space_.enumerated;
        add_joint(models[i], layouts[i], m);
        add_joint_by_stage(models, layouts, i, m);
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
    add_pair(encoder, encoder.works[of_encoder], llm, llm.works[of_llm], m);
  }

  // Returns the microbatches of an encoder replica.
  static double slots_of(const ModuleOption& encoder, const ModuleOption& llm, std::size_t m) {
    return count(llm.degrees.data * m) / count(encoder.degrees.data);
  }

  // Returns whether the option's weights stay gathered for a gain, if they do.
  bool is_worthwhile(const ModuleOption& module, double microbatches) const {
    if (module.reshard) return true;
    const SampleWork& work = module.works.front();
    const double busy_s = work.work_s * count(batch_.samples) / count(module.degrees.data);
    return saves_gathering(module.shards.times(microbatches), busy_s, work.forward);
  }

  // Returns the same for both modules of one pipeline.
  bool is_worthwhile(const PipelineModel& model, const Layout& layout, std::size_t m) const {
    const SampleCost mean = spread_load(job_, layout, batch_.mean);
    const double samples = count(batch_.samples) / count(layout.llm.data);
    const auto saves = [&](const ModuleStages& module, double sample_s) {
      return saves_gathering(module.pass_transfers.times(count(m)), samples * sample_s,
                             module.passes.forward);
    };
    return (layout.encoder_training.reshard || saves(model.encoder, mean.encoder_s)) &&
           (layout.llm_training.reshard || saves(model.llm, mean.llm_s));
  }

  LayoutCandidate& add_pair(const ModuleOption& encoder, const SampleWork& for_encoder,
                            const ModuleOption& llm, const SampleWork& for_llm, std::size_t m) {
    LayoutCandidate candidate{.layout = layout_of(options_)};
    Layout& layout = candidate.layout;
    layout.encoder = encoder.degrees;
    layout.llm = llm.degrees;
    layout.encoder_training.recompute = {for_encoder.recompute};
    layout.llm_training.recompute = {for_llm.recompute};
    layout.encoder_training.reshard = encoder.reshard;
    layout.llm_training.reshard = llm.reshard;
    layout.microbatches = m;
    const double encoder_s =
        for_encoder.work_s * count(batch_.samples) / count(encoder.degrees.data);
    const double llm_s = for_llm.work_s * count(batch_.samples) / count(llm.degrees.data);
    const double per_microbatch = count(batch_.samples) / count(llm.degrees.data * m);
    const double llm_busy_s = llm_s + llm.shards.times(count(m)).added_s(llm_s, for_llm.forward);
    candidate.bound_s =
        std::max(encoder.transfers.bound_s(encoder_s), llm.transfers.bound_s(llm_busy_s));
    // Transfers of the encoder are no bound: microbatches without media have none.
    const double slots = slots_of(encoder, llm, m);
    const double encoder_busy_s =
        encoder_s + encoder.shards.times(slots).added_s(encoder_s, for_encoder.forward);
    candidate.estimate_s =
        std::max(encoder_busy_s + exposed_s(encoder.transfers, encoder_busy_s / slots),
                 llm_busy_s + exposed_s(llm.transfers, llm_busy_s / count(m))) +
        per_microbatch *
            (for_encoder.pass_s + for_llm.pass_s - std::max(for_encoder.work_s, for_llm.work_s));
    return space_.candidates.emplace_back(std::move(candidate));
  }

  // Returns the recomputation of each stage, of which the first one does `first`: the least with
  // which a stage holds no more than the first one. Later stages have fewer microbatches in flight,
  // and those that compute less again have more layers. `in_flight` counts the stages from the
  // first one to the LLM's end. Empty if all stages do `first`, or if they hold all microbatches.
  std::vector<std::size_t> levels_by_stage(const ModuleOption& module, std::size_t first,
                                           std::size_t in_flight, std::size_t m) const {
    if (first == 0 || options_.schedule == Schedule::kGpipe) return {};
    const auto bytes = [&](std::size_t stage, std::size_t level) {
      const SampleWork& work = module.works[level];
      return work.activation_bytes / work.pass_s * count(std::min(m, in_flight - stage));
    };
    std::vector<std::size_t> levels;
    for (std::size_t stage = 0; stage < module.degrees.pipeline; ++stage) {
      std::size_t level = 0;
      while (level < first && bytes(stage, level) > bytes(0, first)) ++level;
      levels.push_back(level);
    }
    return levels.back() == first ? std::vector<std::size_t>() : levels;
  }

  // Returns a module's work with such levels and layers that give every stage the same seconds.
  static SampleWork work_by_stage(const ModuleOption& module,
                                  const std::vector<std::size_t>& levels) {
    SampleWork work = module.works[levels.front()];
    double layers = 0;
    for (const std::size_t level : levels) layers += 1 / module.works[level].pass_s;
    work.work_s = kStagedBound / layers;
    work.pass_s = count(levels.size()) / layers;
    return work;
  }

  static std::vector<Recompute> recompute_of(const ModuleOption& module,
                                             const std::vector<std::size_t>& levels) {
    std::vector<Recompute> all;
    all.reserve(levels.size());
    for (const std::size_t level : levels) all.push_back(module.works[level].recompute);
    return all;
  }

  // Adds the layout whose later stages recompute less, if there is one.
  void add_pair_by_stage(const ModuleOption& encoder, std::size_t of_encoder,
                         const ModuleOption& llm, std::size_t of_llm, std::size_t m) {
    const std::size_t stages = llm.degrees.pipeline;
    const auto llm_levels = levels_by_stage(llm, of_llm, stages, m);
    const auto encoder_levels =
        levels_by_stage(encoder, of_encoder, encoder.degrees.pipeline + stages, m);
    if (llm_levels.empty() && encoder_levels.empty()) return;
    ++space_.enumerated;
    const SampleWork for_llm =
        llm_levels.empty() ? llm.works[of_llm] : work_by_stage(llm, llm_levels);
    const SampleWork for_encoder =
        encoder_levels.empty() ? encoder.works[of_encoder] : work_by_stage(encoder, encoder_levels);
    LayoutCandidate& candidate = add_pair(encoder, for_encoder, llm, for_llm, m);
    Layout& layout = candidate.layout;
    if (!llm_levels.empty()) layout.llm_training.recompute = recompute_of(llm, llm_levels);
    if (!encoder_levels.empty()) {
      layout.encoder_training.recompute = recompute_of(encoder, encoder_levels);
    }
    layout.layers = recomputing_cut(job_, layout, batch_.mean);
  }

  void add_joint(PipelineModel model, Layout layout, std::size_t m) {
    // The bound is evaluated for one sample below, where a microbatch's fixed seconds would count
    // once per sample.
    model.encoder.microbatch_s = model.llm.microbatch_s = 0;
    const PassTransfers of_encoder = std::exchange(model.encoder.pass_transfers, {});
    const PassTransfers of_llm = std::exchange(model.llm.pass_transfers, {});
    const SampleCost mean = spread_load(job_, layout, batch_.mean);
    layout.microbatches = m;
    const double data = count(layout.llm.data);
    const double per_microbatch = count(batch_.samples) / (data * count(m));
    const StepTransfers transfers = std::exchange(model.llm.transfers, {});
    const double bound = pipeline_bound(model, std::vector<SampleCost>(1, mean));
    LayoutCandidate candidate{.layout = std::move(layout)};
    const auto added_s = [&](const PassTransfers& its, const PassShares& passes, double sample_s) {
      return its.times(count(m)).added_s(sample_s * count(batch_.samples) / data, passes.forward);
    };
    double busy_s = bound * count(batch_.samples) + added_s(of_llm, model.llm.passes, mean.llm_s);
    candidate.bound_s = transfers.bound_s(busy_s);
    // Transfers of the encoder are no bound: microbatches without media have none.
    busy_s += added_s(of_encoder, model.encoder.passes, mean.encoder_s);
    candidate.estimate_s = busy_s + exposed_s(transfers, busy_s / count(m)) +
                           per_microbatch * (mean.encoder_s + mean.llm_s - bound * data);
    space_.candidates.push_back(std::move(candidate));
  }

  // Both modules of one pipeline recompute alike, as far as each does.
  std::size_t joint_levels() const {
    return std::max(recomputations(options_, false).size(), recomputations(options_, true).size());
  }

  // Sets the recomputation of both modules: of all stages, or of each.
  void recompute_jointly(const std::vector<std::size_t>& levels, Layout& layout) const {
    for (const bool encoder : {true, false}) {
      const std::vector<Recompute> known = recomputations(options_, encoder);
      std::vector<Recompute>& all =
          (encoder ? layout.encoder_training : layout.llm_training).recompute;
      all.clear();
      for (const std::size_t level : levels) {
        all.push_back(known[std::min(level, known.size() - 1)]);
      }
      if (std::ranges::count(all, all.front()) == std::ssize(all)) all.resize(1);
    }
  }

  // Adds the layout whose later stages, of LLM layers alone, recompute the least with which they
  // hold no more than the first stage does with `first`. See levels_by_stage.
  void add_joint_by_stage(const std::vector<PipelineModel>& models,
                          const std::vector<Layout>& layouts, std::size_t first, std::size_t m) {
    const std::size_t stages = layouts[first].llm.pipeline;
    if (first == 0 || stages == 1 || options_.schedule == Schedule::kGpipe ||
        !recomputes_by_stage(options_.framework)) {
      return;
    }
    const SampleCost mean = spread_load(job_, layouts[first], batch_.mean);
    const double stage_s = (mean.encoder_s + mean.llm_s) / count(stages);
    const auto bytes = [&](std::size_t stage, std::size_t level) {
      const double llm_s = spread_load(job_, layouts[level], batch_.mean).llm_s;
      return models[level].llm.activation_bytes_per_unit * batch_.mean.llm_units * stage_s / llm_s *
             count(std::min(m, stages - stage));
    };
    const double most = joint_activations(models[first], batch_.mean) * count(std::min(m, stages));
    std::vector<std::size_t> levels = {first};
    for (std::size_t stage = 1; stage < stages; ++stage) {
      std::size_t level = 0;
      while (level < first && bytes(stage, level) > most) ++level;
      levels.push_back(level);
    }
    if (levels.back() == first) return;
    Layout layout = layouts[first];
    recompute_jointly(levels, layout);
    layout.layers = recomputing_cut(job_, layout, batch_.mean);
    if (auto model = make_pipeline(job_, layout, batch_.mean)) {
      ++space_.enumerated;
      add_joint(*std::move(model), std::move(layout), m);
    }
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
  if (runs_encoder_ranks(options.framework)) {
    ISOCOST_TRY(visit_pairs(job, batch, options, context, "listing layouts",
                            [&](const ModuleOption& encoder, const ModuleOption& llm) {
                              if (llm.degrees.data > batch.samples) return;
                              collector.add_pair(encoder, llm);
                            }));
  }
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
