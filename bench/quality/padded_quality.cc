// Padded plans on fixed seeds: the share of padding and the predicted step of plans that group like
// lengths, beside plans that are balanced without regard to padding. No clock.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/quality/workload.h"
#include "loader/plan/planner.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSeeds = 20;
constexpr std::int64_t kSamples = 128;
constexpr std::int64_t kRanks = 4;
constexpr std::int64_t kMicrobatches = 4;

PlanInput draw_step(const TraceMixture& mixture, std::uint64_t seed) {
  Random random(seed);
  PlanInput input;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const TraceSample sample = draw(mixture, random);
    Load load;
    const auto patches = static_cast<std::int64_t>(sample.encoder_patches);
    if (patches > 0) load[CostModule::kVision].add_sequence(patches);
    load[CostModule::kLlm].add_sequence(static_cast<std::int64_t>(sample.llm_tokens));
    input.loads.push_back(load);
    input.weights.push_back(1.0F);
    input.ids.push_back(static_cast<std::uint64_t>(i));
  }
  return input;
}

struct Score {
  double padding = 0;  // share of the tokens that are run
  double step_s = 0;   // of the slowest rank, as run
};

Score score(const StepPlan& plan, const PlanInput& input, const CostModel& model) {
  Score score;
  std::int64_t tokens = 0;
  std::int64_t run_tokens = 0;
  for (std::size_t first = 0; first < plan.bins.size(); first += plan.microbatches) {
    double rank_s = 0;
    for (std::size_t b = first; b < first + plan.microbatches; ++b) {
      std::vector<Load> loads;
      for (const PlannedSample& sample : plan.bins[b].samples) {
        loads.push_back(input.loads[sample.index]);
        tokens += loads.back()[CostModule::kLlm].units;
      }
      for (const Load& load : model.as_run(loads)) {
        run_tokens += load[CostModule::kLlm].units;
        for (const double seconds : model.predict_sample(load)) rank_s += seconds;
      }
    }
    score.step_s = std::max(score.step_s, rank_s);
  }
  score.padding = 1 - static_cast<double>(tokens) / static_cast<double>(run_tokens);
  return score;
}

Status run(const char* name) {
  ISOCOST_ASSIGN(const TraceMixture mixture, load_mixture(name, ISOCOST_QUALITY_DATA));
  PlanOptions options;
  options.ranks = kRanks;
  options.microbatches = kMicrobatches;
  options.global_batch_size = kSamples;
  CostModel::Options pads;
  pads.padded[static_cast<std::size_t>(CostModule::kLlm)] = true;
  const CostModel padding(CostProfile::stated_default(), pads);
  const CostModel packing(CostProfile::stated_default(), {});
  Score without;
  Score grouped;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const PlanInput input = draw_step(mixture, seed);
    for (const auto& [model, sum] :
         {std::pair(&packing, &without), std::pair(&padding, &grouped)}) {
      ISOCOST_ASSIGN(const StepPlan plan, plan_step(input, *model, options));
      const Score of_step = score(plan, input, padding);
      sum->padding += of_step.padding / kSeeds;
      sum->step_s += of_step.step_s / kSeeds;
    }
  }
  std::printf("| %s | %.1f %% | %.1f %% | %.3f |\n", name, 100 * without.padding,
              100 * grouped.padding, grouped.step_s / without.step_s);
  return {};
}

int run_all() {
  std::printf(
      "| data | padding, without regard to it | padding, like lengths | step, relative |\n");
  std::printf("|---|---|---|---|\n");
  for (const char* name : {"documents", "photos", "mixed"}) {
    if (const Status done = run(name); !done) {
      std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace isocost

int main() { return isocost::run_all(); }
