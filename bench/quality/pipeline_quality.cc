#include "bench/quality/pipeline_quality.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"
#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/executor/executor.h"
#include "base/fingerprint.h"
#include "base/random.h"
#include "bench/quality/workload.h"
#include "costmodel/sample_cost.h"

namespace isocost {
namespace {

using nlohmann::json;
using Batches = std::vector<std::vector<SampleCost>>;

constexpr std::size_t kSteps = 4;
constexpr std::int64_t kEvaluations = 4'000;

struct PipelineCase {
  std::string name;
  std::string mixture;
  std::size_t samples;
  Layout layout;
  double straggler = 1;
  std::size_t lookahead = 1;
};

std::vector<PipelineCase> pipeline_cases() {
  const Layout wide{
      .encoder = {1, 1, 8}, .llm = {1, 3, 8}, .microbatches = 8, .schedule = Schedule::k1F1B};
  Layout deep{.encoder = {1, 2, 4}, .llm = {1, 6, 4}, .microbatches = 16};
  Layout split = deep;
  split.schedule = Schedule::kZbH1;
  Layout joint{.encoder_place = EncoderPlacement::kLlmRanks, .microbatches = 8};
  joint.encoder = joint.llm = {1, 4, 8};
  Layout wide_data = wide;
  wide_data.encoder.data = wide_data.llm.data = 16;
  const Layout unequal{
      .encoder = {1, 1, 8}, .llm = {2, 7, 4}, .microbatches = 16, .schedule = Schedule::k1F1B};
  return {{"pipeline documents 256, 4 stages x 8, 1f1b", "documents", 256, wide},
          {"pipeline mixed 256, 4 stages x 8, 1f1b", "mixed", 256, wide},
          {"pipeline mixed 256, 8 stages x 4, 1f1b", "mixed", 256, deep},
          {"pipeline mixed 256, 8 stages x 4, zb-h1", "mixed", 256, split},
          {"pipeline mixed 256, one of 4 stages x 8", "mixed", 256, joint},
          {"pipeline mixed 256, 4 stages x 8, straggler", "mixed", 256, wide, 1.2},
          {"pipeline mixed 256, 4 stages x 16, ahead 4", "mixed", 256, wide_data, 1, 4},
          {"pipeline mixed 256, encoder x 8, 7 stages x 4", "mixed", 256, unequal},
          {"pipeline mixed 256, encoder x 8, straggler", "mixed", 256, unequal, 1.2}};
}

Batches draw_batches(const TraceMixture& mixture, std::size_t samples, std::size_t count,
                     std::uint64_t seed) {
  const SamplePrices prices(CostProfile::stated_default());
  Random random(seed);
  Batches batches(count);
  for (auto& batch : batches) {
    for (std::size_t i = 0; i < samples; ++i) {
      const TraceSample sample = draw(mixture, random);
      batch.push_back(prices.of(load_of_counts(static_cast<std::int64_t>(sample.encoder_patches),
                                               static_cast<std::int64_t>(sample.llm_tokens))));
    }
  }
  return batches;
}

Result<Batches> composed(const PipelineModel& model, const Batches& drawn) {
  std::vector<SampleCost> window;
  std::vector<std::size_t> sizes;
  for (const auto& batch : drawn) {
    window.insert(window.end(), batch.begin(), batch.end());
    sizes.push_back(batch.size());
  }
  ISOCOST_ASSIGN(const Composition composition, compose_pipeline_batches(model, window, sizes));
  Batches batches;
  for (const auto& items : composition.batches) {
    auto& batch = batches.emplace_back();
    for (const std::uint32_t item : items) batch.push_back(window[item]);
  }
  return batches;
}

/// Means over the steps of a case, and the largest peak of activations.
class Means {
 public:
  explicit Means(std::size_t steps) : steps_(static_cast<double>(steps)) {}

  void add(const PipelineReport& report, double lower_bound_s) {
    step_s_ += report.step_s / steps_;
    idle_ += report.idle_fraction / steps_;
    gap_ += (report.step_s / lower_bound_s - 1) / steps_;
    peak_ = std::max(peak_, report.peak_activation_bytes());
  }

  json to_json(std::uint64_t plans) const {
    return json{{"makespan", step_s_},
                {"gap", gap_},
                {"idle_fraction", idle_},
                {"peak_activation_bytes", peak_},
                {"plans", plans}};
  }

 private:
  double steps_;
  double step_s_ = 0;
  double idle_ = 0;
  double gap_ = 0;
  std::int64_t peak_ = 0;
};

void add(Fingerprint& plans, const std::vector<std::uint32_t>& samples) {
  plans.add(samples.size());
  for (const std::uint32_t sample : samples) plans.add(sample);
}

Result<json> run_policy(PipelinePolicy policy, const PipelineModel& model, const Batches& batches) {
  Means means(batches.size());
  Fingerprint plans;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    ISOCOST_ASSIGN(
        const PipelinePlan plan,
        plan_pipeline(model, batches[b], policy, {.evaluations = kEvaluations, .seed = b}));
    ISOCOST_ASSIGN(const PipelineReport report,
                   simulate(make_step(model, microbatch_loads(batches[b], plan.bins))));
    means.add(report, plan.lower_bound_s);
    for (const auto& bin : plan.bins) add(plans, bin);
  }
  return means.to_json(plans.value());
}

Result<json> run_decoupled(const PipelineModel& model, const Batches& batches) {
  Means means(batches.size());
  Fingerprint plans;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    ISOCOST_ASSIGN(const DecoupledPlan plan,
                   plan_decoupled(model, batches[b], PipelinePolicy::kCost,
                                  {.evaluations = kEvaluations, .seed = b}));
    if (!plan.decoupled) return Error(ErrorCode::kInvalidArgument, "a plan stayed coupled");
    ISOCOST_ASSIGN(const PipelineReport report,
                   simulate(make_step(model, batches[b], plan.bins, plan.encoder)));
    means.add(report, plan.lower_bound_s);
    for (const auto& bin : plan.bins) add(plans, bin);
    for (const auto& replica : plan.encoder) {
      for (const auto& slot : replica) add(plans, slot);
    }
  }
  return means.to_json(plans.value());
}

Result<json> run_case(const PipelineCase& what, const std::filesystem::path& traces) {
  ISOCOST_ASSIGN(const TraceMixture mixture, load_mixture(what.mixture, traces));
  const JobModel job;
  Batches batches = draw_batches(mixture, what.samples, kSteps, 1);
  const SampleCost mean = isocost::mean(batches.front());
  for (auto& batch : batches) {
    for (SampleCost& sample : batch) sample = spread_load(job, what.layout, sample);
  }
  ISOCOST_ASSIGN(PipelineModel model, make_pipeline(job, what.layout, mean));
  if (what.straggler != 1) {
    model.llm.slowdowns.assign(model.llm.replicas * model.llm.stages, 1);
    std::fill_n(model.llm.slowdowns.begin(), model.llm.stages, what.straggler);
  }
  json report;
  for (const PipelinePolicy policy :
       {PipelinePolicy::kInOrder, PipelinePolicy::kLpt, PipelinePolicy::kCost}) {
    Batches taken = batches;
    if (policy == PipelinePolicy::kCost && what.lookahead > 1) {
      ISOCOST_ASSIGN(taken, composed(model, batches));
    }
    ISOCOST_ASSIGN(report[std::string(policy_name(policy))], run_policy(policy, model, taken));
  }
  if (model.encoder.stages > 0 && model.encoder.replicas != model.llm.replicas) {
    ISOCOST_ASSIGN(report["decoupled"], run_decoupled(model, batches));
  }
  return report;
}

// Scores a layout on batches that the search has not seen.
Result<json> score_fresh(const JobModel& job, const Layout& layout, const Batches& fresh,
                         const LayoutSearchOptions& options) {
  ISOCOST_ASSIGN(const LayoutScore score,
                 score_layout(job, layout, fresh, options, options.evaluations));
  Fingerprint plans;
  plans.add(layout.to_json());
  return json{{"makespan", score.step_s},
              {"idle_fraction", score.idle_fraction},
              {"memory_bytes", score.memory_bytes},
              {"layout", layout.to_string()},
              {"plans", plans.value()}};
}

Result<json> run_search(const std::filesystem::path& traces) {
  ISOCOST_ASSIGN(const TraceMixture mixture, load_mixture("mixed", traces));
  const JobModel job;
  LayoutSearchOptions options;
  options.gpus = 16;
  options.screened_layouts = 40;
  options.refined_layouts = 6;
  options.evaluations = 1'000;
  const auto executor = make_executor(0);
  LayoutSearchContext context;
  context.executor = executor.get();
  const Batches batches = draw_batches(mixture, 128, 2, 2);
  const Batches fresh = draw_batches(mixture, 128, 4, 3);
  ISOCOST_ASSIGN(const LayoutSearchResult found, search_layouts(job, batches, options, context));
  json report;
  ISOCOST_ASSIGN(report["search"], score_fresh(job, found.best.front().layout, fresh, options));
  if (found.alike) {
    ISOCOST_ASSIGN(report["alike"], score_fresh(job, found.alike->layout, fresh, options));
  }
  if (found.mean_shape) {
    ISOCOST_ASSIGN(report["mean-shape"],
                   score_fresh(job, found.mean_shape->layout, fresh, options));
  }
  return report;
}

}  // namespace

Result<json> pipeline_quality(const std::filesystem::path& traces) {
  json report;
  for (const PipelineCase& what : pipeline_cases()) {
    ISOCOST_ASSIGN(report[what.name], run_case(what, traces));
  }
  ISOCOST_ASSIGN(report["layout of 16 GPUs, mixed 128"], run_search(traces));
  return report;
}

}  // namespace isocost
