#include "balancer/pipeline/decoupled_plan.h"

#include <algorithm>
#include <utility>

#include "balancer/pipeline/internal/decoupled_search.h"
#include "balancer/pipeline/internal/decoupled_step.h"
#include "base/random.h"

namespace isocost {

PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> samples,
                       const MicrobatchBins& bins, const EncoderSlots& encoder) {
  PipelineModel llm_alone = model;
  llm_alone.encoder.stages = 0;
  PipelineStep step = make_step(llm_alone, microbatch_loads(samples, bins));
  step.encoder.stages = model.encoder.stages;
  step.encoder.transfers = model.encoder.transfers;
  std::vector<std::uint32_t> llm_slot_of(samples.size());
  for (std::size_t llm_slot = 0; llm_slot < bins.size(); ++llm_slot) {
    for (const std::uint32_t sample : bins[llm_slot]) {
      llm_slot_of[sample] = static_cast<std::uint32_t>(llm_slot);
    }
  }
  std::vector<StagePass> row(model.encoder.stages);
  std::vector<std::pair<std::uint32_t, double>> needs;  // (LLM slot, LLM units)
  for (std::uint32_t e = 0; e < encoder.size(); ++e) {
    auto& passes = step.encoder.passes.emplace_back();
    for (std::uint32_t s = 0; s < encoder[e].size(); ++s) {
      SampleCost load;
      needs.clear();
      for (const std::uint32_t sample : encoder[e][s]) {
        load += samples[sample];
        const auto known = std::find_if(needs.begin(), needs.end(), [&](const auto& need) {
          return need.first == llm_slot_of[sample];
        });
        if (known == needs.end()) {
          needs.emplace_back(llm_slot_of[sample], samples[sample].llm_units);
        } else {
          known->second += samples[sample].llm_units;
        }
      }
      encoder_passes(model, load, row);
      slow_down(row, model.encoder, e);
      passes.insert(passes.end(), row.begin(), row.end());
      for (const auto& [llm_slot, units] : needs) {
        step.feeds.push_back(
            {.encoder_replica = e,
             .slot = s,
             .llm_replica = static_cast<std::uint32_t>(llm_slot / model.microbatches),
             .microbatch = static_cast<std::uint32_t>(llm_slot % model.microbatches),
             .bytes = static_cast<std::int64_t>(units * model.feed_bytes_per_llm_unit)});
      }
    }
  }
  return step;
}

namespace {

// One evaluation of a whole step costs as much as this many evaluations of a group.
constexpr std::int64_t kGroupEvaluations = 32;
// Coupled plans within this factor of the bound leave nothing to gain.
constexpr double kEnough = 1.002;
// The search without an encoder receives one part in this many of the budget.
constexpr std::int64_t kLlmAlonePart = 8;

// Refines the bins as if there were no encoder.
Result<MicrobatchBins> llm_alone(const PipelineModel& model, std::span<const SampleCost> samples,
                                 const MicrobatchBins& bins, PipelineSearchOptions options) {
  options.evaluations /= kLlmAlonePart;
  options.exchanges /= kLlmAlonePart;
  PipelineModel alone = model;
  alone.encoder.stages = 0;
  std::vector<SampleCost> loads(samples.begin(), samples.end());
  for (SampleCost& load : loads) load.encoder_s = load.encoder_units = 0;
  ISOCOST_ASSIGN(PipelinePlan plan, refine_pipeline(alone, loads, bins, options));
  return std::move(plan.bins);
}

// Returns the widths of intervals to try, in microbatch numbers: the number of encoder replicas,
// the number of LLM replicas, and half and twice of each.
std::vector<std::size_t> widths(const PipelineModel& model) {
  std::vector<std::size_t> widths;
  for (const std::size_t of : {model.encoder.replicas, model.llm.replicas}) {
    for (const std::size_t width : {of, (of + 1) / 2, 2 * of}) {
      if (width <= model.slots() &&
          std::find(widths.begin(), widths.end(), width) == widths.end()) {
        widths.push_back(width);
      }
    }
  }
  return widths;
}

/// Makes the decoupled plan for plan_decoupled.
class Decoupling {
 public:
  Decoupling(const PipelineModel& model, std::span<const SampleCost> samples,
             const PipelineSearchOptions& options, DecoupledStep& step, const PipelinePlan& coupled)
      : model_(model),
        samples_(samples),
        options_(options),
        search_(step, coupled_choice(coupled.bins)) {}

  Status run() {
    const MicrobatchBins coupled = search_.choice().bins;
    offer_divisions(coupled);
    ISOCOST_ASSIGN(const MicrobatchBins alone, llm_alone(model_, samples_, coupled, options_));
    offer_divisions(alone);
    Random random(options_.seed);
    const std::int64_t evaluations = options_.evaluations / kGroupEvaluations;
    search_.improve(evaluations, random);
    search_.save_feeds(evaluations / 4);
    return {};
  }

  const DecoupledSearch& search() const { return search_; }

 private:
  DecoupledChoice coupled_choice(const MicrobatchBins& bins) const {
    DecoupledChoice choice{.bins = bins,
                           .encoder_of = std::vector<std::uint32_t>(samples_.size(), 0),
                           .interval_of = {}};
    couple_encoders(model_, choice);
    return choice;
  }

  void offer_divisions(const MicrobatchBins& bins) {
    DecoupledChoice choice = coupled_choice(bins);
    search_.offer(choice);
    for (const std::size_t width : widths(model_)) {
      choice.interval_of = even_intervals(model_.slots(), width);
      deal_to_encoders(model_, samples_, choice);
      search_.offer(choice);
    }
  }

  const PipelineModel& model_;
  std::span<const SampleCost> samples_;
  const PipelineSearchOptions& options_;
  DecoupledSearch search_;
};

// Returns pipeline_bound without the encoder's fixed seconds, since the number of decoupled slots
// has no lower limit.
double decoupled_bound(PipelineModel model, std::span<const SampleCost> samples) {
  if (model.encoder.stages > 0) {
    model.encoder.microbatch_s = model.encoder.pass_transfers.exposed_s = 0;
  }
  return pipeline_bound(model, samples);
}

bool worth_decoupling(const PipelineModel& model, std::span<const SampleCost> samples,
                      PipelinePolicy policy, const PipelinePlan& coupled, double bound) {
  if (policy != PipelinePolicy::kCost || model.encoder.stages == 0) return false;
  if (coupled.fits && coupled.step_s <= bound * kEnough) return false;
  const auto with_media = std::count_if(
      samples.begin(), samples.end(), [](const auto& sample) { return sample.encoder_units > 0; });
  return static_cast<std::size_t>(with_media) >= model.encoder.replicas;
}

}  // namespace

Result<DecoupledPlan> plan_decoupled(const PipelineModel& model,
                                     std::span<const SampleCost> samples, PipelinePolicy policy,
                                     const PipelineSearchOptions& options) {
  ISOCOST_ASSIGN(PipelinePlan coupled, plan_pipeline(model, samples, policy, options));
  DecoupledPlan plan{.bins = coupled.bins,
                     .encoder = {},
                     .step_s = coupled.step_s,
                     .coupled_s = coupled.step_s,
                     .lower_bound_s = decoupled_bound(model, samples),
                     .fits = coupled.fits};
  if (!worth_decoupling(model, samples, policy, coupled, plan.lower_bound_s)) return plan;
  ISOCOST_ASSIGN(DecoupledStep step, DecoupledStep::create(model, samples, options.caps));
  Decoupling decoupling(model, samples, options, step, coupled);
  ISOCOST_TRY(decoupling.run());
  const DecoupledScore score = step.evaluate(decoupling.search().choice());
  const bool fits = score.excess_bytes == 0;
  if (coupled.fits && !fits) return plan;
  if (score.step_s >= coupled.step_s && fits == coupled.fits) return plan;
  plan.bins = decoupling.search().choice().bins;
  plan.encoder = step.slots(decoupling.search().choice());
  plan.decoupled = true;
  plan.step_s = score.step_s;
  plan.fits = fits;
  return plan;
}

}  // namespace isocost
