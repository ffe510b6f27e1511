#include "balancer/pipeline/decoupled_plan.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "balancer/pipeline/internal/decoupled_search.h"
#include "balancer/pipeline/internal/decoupled_step.h"
#include "base/random.h"

namespace isocost {
namespace {

Error broken(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "encoder slots: " + what};
}

// [samples]: the microbatch, of whatever replica, that needs it.
Result<std::vector<std::uint32_t>> microbatch_of_samples(const PipelineModel& model,
                                                         std::size_t samples,
                                                         const MicrobatchBins& bins) {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  if (bins.size() != model.places()) {
    return broken(std::to_string(bins.size()) + " LLM microbatches for " +
                  std::to_string(model.places()) + " places");
  }
  std::vector<std::uint32_t> of(samples, kNone);
  for (std::size_t place = 0; place < bins.size(); ++place) {
    for (const std::uint32_t sample : bins[place]) {
      if (sample >= samples || of[sample] != kNone) {
        return broken("sample " + std::to_string(sample) +
                      (sample >= samples ? " does not exist" : " is in two LLM microbatches"));
      }
      of[sample] = static_cast<std::uint32_t>(place % model.microbatches);
    }
  }
  const auto left_out = std::find(of.begin(), of.end(), kNone);
  if (left_out == of.end()) return of;
  return broken("sample " + std::to_string(left_out - of.begin()) + " is in no LLM microbatch");
}

Status check_replica(std::size_t replica, const std::vector<std::vector<std::uint32_t>>& slots,
                     std::span<const SampleCost> samples,
                     const std::vector<std::uint32_t>& microbatch_of, std::vector<bool>& seen) {
  std::uint32_t before = 0;  // microbatches of the slots before end here
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const auto refuse = [&](std::initializer_list<std::string_view> parts) {
      std::string what = "replica " + std::to_string(replica) + " slot " + std::to_string(s) + " ";
      for (const std::string_view part : parts) what.append(part);
      return broken(what);
    };
    if (slots[s].empty()) return refuse({"is empty"});
    std::uint32_t last = before;
    for (const std::uint32_t sample : slots[s]) {
      const std::string which = std::to_string(sample);
      if (sample >= samples.size()) {
        return refuse({"has sample ", which, ", which does not exist"});
      }
      if (samples[sample].encoder_units <= 0) {
        return refuse({"has sample ", which, ", which has no encoder work"});
      }
      if (seen[sample]) return refuse({"has sample ", which, ", which another has, too"});
      if (microbatch_of[sample] < before) {
        return refuse({"has sample ", which, " of microbatch ",
                       std::to_string(microbatch_of[sample]), ", but a slot before it has one of ",
                       std::to_string(before)});
      }
      seen[sample] = true;
      last = std::max(last, microbatch_of[sample]);
    }
    before = last;
  }
  return {};
}

}  // namespace

Status check_slots(const PipelineModel& model, std::span<const SampleCost> samples,
                   const MicrobatchBins& bins, const EncoderSlots& encoder) {
  ISOCOST_ASSIGN(const std::vector<std::uint32_t> microbatch_of,
                 microbatch_of_samples(model, samples.size(), bins));
  if (encoder.size() != model.encoder.replicas) {
    return broken(std::to_string(encoder.size()) + " replicas for " +
                  std::to_string(model.encoder.replicas));
  }
  std::vector<bool> seen(samples.size(), false);
  for (std::size_t e = 0; e < encoder.size(); ++e) {
    if (encoder[e].empty()) return broken("replica " + std::to_string(e) + " has none");
    ISOCOST_TRY(check_replica(e, encoder[e], samples, microbatch_of, seen));
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].encoder_units > 0 && !seen[i]) {
      return broken("sample " + std::to_string(i) + " is in none");
    }
  }
  return {};
}

PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> samples,
                       const MicrobatchBins& bins, const EncoderSlots& encoder) {
  PipelineModel llm_alone = model;
  llm_alone.encoder.stages = 0;
  PipelineStep step = make_step(llm_alone, microbatch_loads(samples, bins));
  step.encoder.stages = model.encoder.stages;
  step.encoder.reduce_s = model.encoder.reduce_s;
  std::vector<std::uint32_t> place_of(samples.size());
  for (std::size_t place = 0; place < bins.size(); ++place) {
    for (const std::uint32_t sample : bins[place]) {
      place_of[sample] = static_cast<std::uint32_t>(place);
    }
  }
  std::vector<StagePass> row(model.encoder.stages);
  std::vector<std::pair<std::uint32_t, double>> needs;  // place, LLM units
  for (std::uint32_t e = 0; e < encoder.size(); ++e) {
    auto& passes = step.encoder.passes.emplace_back();
    for (std::uint32_t s = 0; s < encoder[e].size(); ++s) {
      SampleCost load;
      needs.clear();
      for (const std::uint32_t sample : encoder[e][s]) {
        load += samples[sample];
        const auto known = std::find_if(needs.begin(), needs.end(), [&](const auto& need) {
          return need.first == place_of[sample];
        });
        if (known == needs.end()) {
          needs.emplace_back(place_of[sample], samples[sample].llm_units);
        } else {
          known->second += samples[sample].llm_units;
        }
      }
      encoder_passes(model, load, row);
      slow_down(row, model.encoder, e);
      passes.insert(passes.end(), row.begin(), row.end());
      for (const auto& [place, units] : needs) {
        step.feeds.push_back(
            {.encoder_replica = e,
             .slot = s,
             .llm_replica = static_cast<std::uint32_t>(place / model.microbatches),
             .microbatch = static_cast<std::uint32_t>(place % model.microbatches),
             .bytes = static_cast<std::int64_t>(units * model.feed_bytes_per_llm_unit)});
      }
    }
  }
  return step;
}

namespace {

// A look at a whole step costs as much as so many of a group's.
constexpr std::int64_t kLooksOfGroups = 32;
// Coupled plans nearer the bound than this leave nothing to gain.
constexpr double kEnough = 1.002;
// Part of the budget for a plan that others start from.
constexpr std::int64_t kLlmAlonePart = 8;

// Bins searched on as if there were no encoder.
Result<MicrobatchBins> llm_alone(const PipelineModel& model, std::span<const SampleCost> samples,
                                 const MicrobatchBins& bins, OrderOptions options) {
  options.evaluations /= kLlmAlonePart;
  options.exchanges /= kLlmAlonePart;
  PipelineModel alone = model;
  alone.encoder.stages = 0;
  std::vector<SampleCost> loads(samples.begin(), samples.end());
  for (SampleCost& load : loads) load.encoder_s = load.encoder_units = 0;
  ISOCOST_ASSIGN(PipelinePlan plan, refine_pipeline(alone, loads, bins, options));
  return std::move(plan.bins);
}

// Numbers that an interval may hold: about a slot for each replica, a slot for each wave of the
// LLM's microbatches, and less.
std::vector<std::size_t> widths(const PipelineModel& model) {
  std::vector<std::size_t> widths;
  for (const std::size_t of : {model.encoder.replicas, model.llm.replicas}) {
    for (const std::size_t width : {of, (of + 1) / 2, 2 * of}) {
      if (width <= model.places() &&
          std::find(widths.begin(), widths.end(), width) == widths.end()) {
        widths.push_back(width);
      }
    }
  }
  return widths;
}

/// The decoupled side of plan_decoupled.
class Decoupling {
 public:
  Decoupling(const PipelineModel& model, std::span<const SampleCost> samples,
             const OrderOptions& options, DecoupledStep& step, const PipelinePlan& coupled)
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
    const std::int64_t looks = options_.evaluations / kLooksOfGroups;
    search_.improve(looks, random);
    search_.save_feeds(looks / 4);
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
      choice.interval_of = even_intervals(model_.places(), width);
      deal_to_encoders(model_, samples_, choice);
      search_.offer(choice);
    }
  }

  const PipelineModel& model_;
  std::span<const SampleCost> samples_;
  const OrderOptions& options_;
  DecoupledSearch search_;
};

// pipeline_bound, but that decoupled slots may be as few as one likes, and so their fixed seconds.
double decoupled_bound(PipelineModel model, std::span<const SampleCost> samples) {
  if (model.encoder.stages > 0) model.encoder.microbatch_s = 0;
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
                                     const OrderOptions& options) {
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
  const DecoupledScore score = step.look(decoupling.search().choice());
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
