#include "balancer/layout/layout_search.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <latch>
#include <limits>
#include <utility>

#include "balancer/layout/internal/layout_space.h"
#include "balancer/layout/internal/remedies.h"
#include "base/counted.h"
#include "costmodel/memory.h"

namespace isocost {
namespace {

constexpr std::size_t kWave = 16;
constexpr std::size_t kAlikeScreened = 40;
constexpr std::size_t kAlikeRefined = 6;
constexpr std::size_t kRefinementBatches = 2;
constexpr std::size_t kMoreThanKept = 3;  // reserve for layouts that prove slower or do not fit
constexpr std::size_t kMostAhead = 2;  // largest encoder_ahead to try; each step adds activations
constexpr double kSame = 1e-3;         // relative difference of steps that count as equal

using Batches = std::span<const std::vector<SampleCost>>;

void take_report(const PipelineReport& report, const RankMemory& state, double batches,
                 LayoutScore& score) {
  double work = 0;
  double reduce = 0;
  for (const StageReport& stage : report.stages) {
    if (stage.busy_s + stage.reduce_s > work + reduce) {
      work = stage.busy_s;
      reduce = stage.reduce_s;
    }
    score.memory_bytes =
        std::max(score.memory_bytes, (stage.encoder ? state.encoder_state : state.llm_state) +
                                         stage.peak_activation_bytes);
  }
  score.step_s += report.step_s / batches;
  score.idle_fraction += report.idle_fraction / batches;
  score.work_s += work / batches;
  score.reduce_s += reduce / batches;
}

bool is_better(const LayoutScore& a, const LayoutScore& b) {
  return a.fits != b.fits ? a.fits : a.step_s < b.step_s;
}

void sort_scores(std::vector<LayoutScore>& scores) {
  std::stable_sort(scores.begin(), scores.end(), is_better);
}

/// Runs the rounds of one search.
class Search {
 public:
  Search(const JobModel& job, Batches batches, const LayoutSearchOptions& options,
         const LayoutSearchContext& context)
      : job_(job), batches_(batches), options_(options), context_(context) {}

  Result<LayoutSearchResult> run() {
    const BatchSummary summary = BatchSummary::of(batches_);
    ISOCOST_ASSIGN(const LayoutSpace space, enumerate_layouts(job_, summary, options_, context_));
    result_.enumerated = space.enumerated;
    result_.over_memory = space.over_memory;
    if (space.candidates.empty()) return nothing_fits(space, summary);
    ISOCOST_TRY(screen(space, batch_ratio(summary)));
    std::optional<Layout> mean_shape;  // its encoder has its own ranks
    if (runs_encoder_ranks(options_.framework)) {
      ISOCOST_ASSIGN(mean_shape, mean_shape_layout(job_, batches_, options_, context_));
    }
    ISOCOST_TRY(refine(mean_shape));
    ISOCOST_TRY(score_finalists(mean_shape));
    if (result_.best.empty()) {
      return Error(ErrorCode::kResourceExhausted,
                   "no layout fits its memory on every sampled batch; use more GPUs, more memory, "
                   "a smaller global batch, or recompute activations or shard weights "
                   "(--recompute auto, --shard-weights)");
    }
    return std::move(result_);
  }

 private:
  struct Round {
    int number = 1;
    std::size_t batches = 1;
    std::int64_t evaluations = 0;
    const char* what = "";
  };

  Error nothing_fits(const LayoutSpace& space, const BatchSummary& summary) const {
    if (space.over_memory == 0) {
      return {ErrorCode::kInvalidArgument,
              "no layout of " + counted(options_.gpus, "GPU") +
                  " has degrees that the model allows and at least one sample per replica of " +
                  counted(batches_.front().size(), "sample") +
                  " per step: use fewer GPUs, or a larger --global-batch-size"};
    }
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(),
                  "no layout fits: the smallest needs %.1f GiB per GPU, %.1f GiB are usable; ",
                  space.least_memory / static_cast<double>(kGiB),
                  options_.usable_memory * static_cast<double>(job_.cluster.gpu_memory) /
                      static_cast<double>(kGiB));
    return {ErrorCode::kResourceExhausted,
            text.data() + what_fits(job_, summary, options_, context_)};
  }

  // Returns the ratio of the first batch's work to the mean batch's, because bounds are computed
  // for the mean batch.
  double batch_ratio(const BatchSummary& summary) const {
    SampleCost sum;
    for (const SampleCost& load : batches_.front()) sum += load;
    const auto n = static_cast<double>(summary.samples);
    double ratio = 1;
    if (summary.mean.encoder_s > 0) {
      ratio = std::min(ratio, sum.encoder_s / n / summary.mean.encoder_s);
    }
    if (summary.mean.llm_s > 0) ratio = std::min(ratio, sum.llm_s / n / summary.mean.llm_s);
    return ratio;
  }

  // Scores layouts on the executor, a wave at a time. Layouts that cannot be planned are left out.
  Result<std::vector<LayoutScore>> score_all(const std::vector<Layout>& layouts,
                                             const Round& round) {
    std::vector<LayoutScore> scores;
    for (std::size_t first = 0; first < layouts.size(); first += kWave) {
      const auto end = std::min(layouts.size(), first + kWave);
      ISOCOST_TRY(score_wave({layouts.begin() + static_cast<std::ptrdiff_t>(first),
                              layouts.begin() + static_cast<std::ptrdiff_t>(end)},
                             round, scores));
      if (context_.progress) context_.progress(end, layouts.size(), round.what);
    }
    return scores;
  }

  Status check_stop() const {
    if (!context_.stop.stop_requested()) return {};
    return Error(ErrorCode::kCancelled, "the layout search was stopped");
  }

  Status score_wave(const std::vector<Layout>& layouts, const Round& round,
                    std::vector<LayoutScore>& scores) {
    ISOCOST_TRY(check_stop());
    std::vector<std::optional<LayoutScore>> found(layouts.size());
    std::vector<bool> recalled(layouts.size(), false);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      if (context_.recall) found[i] = context_.recall(key_of(layouts[i], round));
      recalled[i] = found[i].has_value();
      if (!recalled[i]) open.push_back(i);
    }
    std::latch done(static_cast<std::ptrdiff_t>(open.size()));
    std::vector<std::exception_ptr> thrown(layouts.size());  // no memory, for example
    const auto succeeds = [&thrown](std::size_t i, const auto& task) {
      try {
        task();
        return true;
      } catch (...) {
        thrown[i] = std::current_exception();
        return false;
      }
    };
    for (const std::size_t i : open) {
      const auto score = [this, i, &layouts, &round, &found] {
        if (context_.stop.stop_requested()) return;
        auto scored = score_layout(job_, layouts[i], batches_.first(round.batches), options_,
                                   round.evaluations);
        if (scored) found[i] = *std::move(scored);
      };
      const auto submit = [&] {
        context_.executor->submit([i, score, &succeeds, &done] {
          succeeds(i, score);
          done.count_down();
        });
      };
      if (!succeeds(i, submit)) done.count_down();
    }
    done.wait();
    for (const std::exception_ptr& error : thrown) {
      if (error) std::rethrow_exception(error);
    }
    ISOCOST_TRY(check_stop());
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const std::optional<LayoutScore>& score = found[i];
      if (!score) continue;
      if (!recalled[i] && context_.record) context_.record({key_of(layouts[i], round), *score});
      scores.push_back(*score);
    }
    return {};
  }

  static std::string key_of(const Layout& layout, const Round& round) {
    return std::to_string(round.number) + ": " + layout.to_string();
  }

  // Scores the most promising layouts on one batch, planned without local search, until the bounds
  // or the budget end the round. Layouts that treat both modules alike have a budget of their own.
  Status screen(const LayoutSpace& space, double ratio) {
    const Round round{.number = 1, .what = "screening layouts"};
    const std::size_t most = std::min(options_.screened_layouts, space.candidates.size());
    double best = std::numeric_limits<double>::infinity();
    std::size_t alike = 0;
    std::vector<Layout> wave;
    const auto flush = [&]() -> Status {
      ISOCOST_TRY(score_wave(wave, round, screened_));
      result_.simulated += wave.size();
      wave.clear();
      for (const LayoutScore& score : screened_) {
        if (score.fits) best = std::min(best, score.step_s);
      }
      if (context_.progress) {
        context_.progress(std::min(result_.simulated, most), most, round.what);
      }
      return {};
    };
    for (const LayoutCandidate& candidate : space.candidates) {
      const bool is_alike = treats_alike(candidate.layout) && alike < kAlikeScreened;
      if (!is_alike && result_.simulated + wave.size() >= options_.screened_layouts) continue;
      if (candidate.bound_s * ratio >= best && !is_alike) {
        ++result_.over_bound;
        continue;
      }
      if (is_alike) ++alike;
      wave.push_back(candidate.layout);
      if (wave.size() == kWave) ISOCOST_TRY(flush());
    }
    if (!wave.empty()) ISOCOST_TRY(flush());
    if (context_.progress)
      context_.progress(most, most, round.what);  // the others exceed the bound
    sort_scores(screened_);
    return {};
  }

  static void add(std::vector<Layout>& layouts, const Layout& layout) {
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) {
      layouts.push_back(layout);
    }
  }

  // Returns the best of `scores`, the best that treat modules alike, and `more`.
  static std::vector<Layout> shortlist(const std::vector<LayoutScore>& scores, std::size_t most,
                                       std::size_t most_alike, const std::optional<Layout>& more) {
    std::vector<Layout> layouts;
    std::size_t alike = 0;
    for (const LayoutScore& score : scores) {
      const bool is_alike = treats_alike(score.layout);
      if (layouts.size() < most || (is_alike && alike < most_alike)) add(layouts, score.layout);
      if (is_alike) ++alike;
    }
    if (more) add(layouts, *more);
    return layouts;
  }

  Status refine(const std::optional<Layout>& mean_shape) {
    const Round round{.number = 2,
                      .batches = std::min(kRefinementBatches, batches_.size()),
                      .evaluations = options_.evaluations / 4,
                      .what = "refining layouts"};
    const std::size_t most = std::max(options_.refined_layouts, options_.keep + kMoreThanKept);
    ISOCOST_ASSIGN(refined_,
                   score_all(shortlist(screened_, most, kAlikeRefined, mean_shape), round));
    sort_scores(refined_);
    return {};
  }

  Status score_finalists(const std::optional<Layout>& mean_shape) {
    const Round round{.number = 3,
                      .batches = batches_.size(),
                      .evaluations = options_.evaluations,
                      .what = "scoring the best layouts"};
    ISOCOST_ASSIGN(
        auto scores,
        score_all(shortlist(refined_, options_.keep + kMoreThanKept, 2, mean_shape), round));
    sort_scores(scores);
    for (const LayoutScore& score : scores) {
      if (mean_shape && score.layout == *mean_shape) result_.mean_shape = score;
    }
    ISOCOST_TRY(try_run_ahead(scores));
    for (const LayoutScore& score : scores) {
      if (!score.fits) continue;
      if (!result_.alike && treats_alike(score.layout)) result_.alike = score;
      if (result_.best.size() < options_.keep) result_.best.push_back(score);
    }
    return {};
  }

  // Tries to let the encoder run ahead in the layouts that may be kept. A layout is replaced if its
  // step becomes shorter.
  Status try_run_ahead(std::vector<LayoutScore>& scores) {
    const Round round{.number = 4,
                      .batches = batches_.size(),
                      .evaluations = options_.evaluations,
                      .what = "trying encoders that run ahead"};
    std::vector<Layout> further;
    for (Layout layout : shortlist(scores, options_.keep, 1, std::nullopt)) {
      if (layout.encoder_place != EncoderPlacement::kOwnRanks) continue;
      while (layout.encoder_ahead < std::min(kMostAhead, layout.microbatches)) {
        ++layout.encoder_ahead;
        further.push_back(layout);
      }
    }
    ISOCOST_ASSIGN(const auto found, score_all(further, round));
    for (const LayoutScore& score : found) {
      Layout without = score.layout;
      without.encoder_ahead = 0;
      const auto same = std::find_if(scores.begin(), scores.end(), [&without](LayoutScore other) {
        other.layout.encoder_ahead = 0;
        return other.layout == without;
      });
      if (same == scores.end()) continue;
      if (score.fits && score.step_s < (1 - kSame) * same->step_s) *same = score;
    }
    sort_scores(scores);
    return {};
  }

  const JobModel& job_;
  Batches batches_;
  LayoutSearchOptions options_;
  const LayoutSearchContext& context_;
  LayoutSearchResult result_;
  std::vector<LayoutScore> screened_;
  std::vector<LayoutScore> refined_;
};

}  // namespace

namespace {

// An encoder that the profile measured without a backward pass is frozen, and keeps nothing that
// could be computed again.
Status freeze_as_measured(const JobModel& job, LayoutSearchOptions& options) {
  Layout layout = layout_of(options);
  if (is_frozen(job.profile.modules.at(static_cast<std::size_t>(job.encoder_module)))) {
    layout.encoder_training.recompute = {Recompute::kNone};
    ISOCOST_TRY(make_pipeline(job, layout, {}));
    options.encoder_training = {.weights = TrainedWeights::kNone};
    return {};
  }
  ISOCOST_TRY(make_pipeline(job, layout, {}));
  return {};
}

}  // namespace

Error experts_are_not_planned(const std::string& what, std::int64_t experts) {
  return {ErrorCode::kInvalidArgument,
          what + " has layers with " + counted(experts, "expert") +
              ", and layouts are planned for dense layers alone: missing are expert parallelism, "
              "the traffic of tokens between experts, and what recomputation keeps of them. Choose "
              "the degrees as your framework does; a node balances their samples by a model "
              "profile without a layout ('isocost serve --profile FILE --ranks N')"};
}

Result<LayoutSearchResult> search_layouts(const JobModel& job, Batches batches,
                                          const LayoutSearchOptions& options,
                                          const LayoutSearchContext& context) {
  if (batches.empty() || batches.front().empty() || options.gpus == 0 ||
      context.executor == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 "a layout search needs GPUs, samples and an executor");
  }
  for (const Architecture& shape : {job.encoder, job.llm}) {
    if (shape.experts == 0) continue;
    return experts_are_not_planned("model profile " + job.profile.source + " (" + shape.name + ")",
                                   shape.experts);
  }
  LayoutSearchOptions as_measured = options;
  ISOCOST_TRY(freeze_as_measured(job, as_measured));
  return Search(job, batches, as_measured, context).run();
}

Result<LayoutScore> score_layout(const JobModel& job, const Layout& layout, Batches batches,
                                 const LayoutSearchOptions& options, std::int64_t evaluations,
                                 PipelinePolicy policy) {
  const BatchSummary summary = BatchSummary::of(batches);
  ISOCOST_ASSIGN(const PipelineModel model, make_pipeline(job, layout, summary.mean));
  const RankMemory state = state_memory(job, layout, model);
  LayoutScore score{.layout = layout};
  std::uint64_t seed = options.seed;
  for (const auto& batch : batches) {
    std::vector<SampleCost> samples;
    samples.reserve(batch.size());
    for (const SampleCost& sample : batch) samples.push_back(spread_load(job, layout, sample));
    const PipelineSearchOptions order{.evaluations = evaluations,
                                      .exchanges = evaluations / 8,
                                      .caps = activation_caps(job, state, options.usable_memory),
                                      .seed = seed++};
    ISOCOST_ASSIGN(const PipelinePlan plan, plan_pipeline(model, samples, policy, order));
    ISOCOST_ASSIGN(const PipelineReport report,
                   simulate(make_step(model, microbatch_loads(samples, plan.bins))));
    score.fits = score.fits && plan.fits;
    take_report(report, state, static_cast<double>(batches.size()), score);
  }
  return score;
}

namespace {

/// Computes memory and seconds of a layout by the published rule. Both modules have their own
/// ranks.
struct MeanShapeRule {
  BatchSummary batch;
  SampleCost mean;  ///< With the modules trained as the options say.
  double memory = 0;

  double samples(const ModuleDegrees& degrees, std::size_t m) const {
    return static_cast<double>(batch.samples) / static_cast<double>(degrees.data * m);
  }
  double seconds(double module_s, const ModuleDegrees& degrees, std::size_t m) const {
    return module_s * samples(degrees, m) / static_cast<double>(degrees.tensor * degrees.pipeline);
  }
  bool fits(const ModuleOption& option, std::size_t in_flight, std::size_t m) const {
    const double activations = option.works.front().largest_bytes * samples(option.degrees, m) *
                               static_cast<double>(in_flight);
    return 1.25 * (option.state_bytes + activations) <= memory;
  }
  double step_s(const ModuleOption& encoder, const ModuleOption& llm, std::size_t m) const {
    return static_cast<double>(m + encoder.degrees.pipeline + llm.degrees.pipeline - 1) *
           std::max(seconds(mean.encoder_s, encoder.degrees, m),
                    seconds(mean.llm_s, llm.degrees, m));
  }
};

}  // namespace

Result<std::optional<Layout>> mean_shape_layout(const JobModel& job, Batches batches,
                                                const LayoutSearchOptions& options,
                                                const LayoutSearchContext& context) {
  const BatchSummary summary = BatchSummary::of(batches);
  const Layout trained = layout_of(options);
  const MeanShapeRule rule{.batch = summary,
                           .mean = trained_cost(job, trained, summary.mean),
                           .memory = static_cast<double>(job.cluster.gpu_memory)};
  std::optional<Layout> chosen;
  double chosen_s = std::numeric_limits<double>::infinity();
  const auto consider = [&](const ModuleOption& encoder, const ModuleOption& llm) {
    const std::size_t stages = encoder.degrees.pipeline + llm.degrees.pipeline;
    for (const std::size_t m : microbatch_counts(rule.batch.samples / llm.degrees.data)) {
      if (encoder.degrees.data > llm.degrees.data * m) continue;
      if (!rule.fits(encoder, stages, m) || !rule.fits(llm, llm.degrees.pipeline, m)) continue;
      const double step_s = rule.step_s(encoder, llm, m);
      if (chosen && !(step_s < 1.1 * chosen_s && m < chosen->microbatches)) continue;
      chosen_s = step_s;
      chosen = trained;
      chosen->encoder = encoder.degrees;
      chosen->llm = llm.degrees;
      chosen->microbatches = m;
    }
  };
  // The rule knows no sharded weights.
  LayoutSearchOptions published = options;
  published.shard_weights = false;
  ISOCOST_TRY(
      visit_pairs(job, rule.batch, published, context, "evaluating the mean-shape rule", consider));
  return chosen;
}

std::string why_slower(const LayoutScore& best, const LayoutScore& other) {
  const double work = other.work_s - best.work_s;
  const double reduce = other.reduce_s - best.reduce_s;
  const double wait = other.wait_s() - best.wait_s();
  const double total = other.step_s - best.step_s;
  if (total <= kSame * best.step_s) return "it is equally fast";
  std::array<char, 160> text{};
  if (work >= reduce && work >= wait) {
    std::snprintf(text.data(), text.size(), "its busiest stage works %.3f s longer%s", work,
                  total < 0.9 * work ? ", partly while others would wait" : "");
  } else if (wait >= reduce) {
    std::snprintf(text.data(), text.size(),
                  "its busiest stage waits %.3f s longer (fill, drain, uneven microbatches)", wait);
  } else {
    std::snprintf(text.data(), text.size(), "reducing gradients takes %.3f s longer", reduce);
  }
  return text.data();
}

}  // namespace isocost
