#include "balancer/decoupled.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "balancer/internal/decoupled_search.h"
#include "balancer/internal/decoupled_step.h"
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
                     std::span<const PipelineLoad> samples,
                     const std::vector<std::uint32_t>& microbatch_of, std::vector<bool>& seen) {
  std::uint32_t before = 0;  // microbatches of the slots before end here
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const std::string slot =
        "replica " + std::to_string(replica) + " slot " + std::to_string(s) + " ";
    if (slots[s].empty()) return broken(slot + "is empty");
    std::uint32_t last = before;
    for (const std::uint32_t sample : slots[s]) {
      const std::string which = "sample " + std::to_string(sample);
      if (sample >= samples.size()) return broken(slot + "has " + which + ", which does not exist");
      if (samples[sample].encoder_units <= 0) {
        return broken(slot + "has " + which + ", which has no encoder work");
      }
      if (seen[sample]) return broken(slot + "has " + which + ", which another has, too");
      if (microbatch_of[sample] < before) {
        return broken(slot + "has " + which + " of microbatch " +
                      std::to_string(microbatch_of[sample]) + ", but a slot before it has one of " +
                      std::to_string(before));
      }
      seen[sample] = true;
      last = std::max(last, microbatch_of[sample]);
    }
    before = last;
  }
  return {};
}

}  // namespace

Status check_slots(const PipelineModel& model, std::span<const PipelineLoad> samples,
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

PipelineStep make_step(const PipelineModel& model, std::span<const PipelineLoad> samples,
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
      PipelineLoad load;
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
      slow_down(row, model.encoder.speed_of(e));
      passes.insert(passes.end(), row.begin(), row.end());
      for (const auto& [place, units] : needs) {
        step.feeds.push_back({.encoder_replica = e,
                              .slot = s,
                              .llm_replica = static_cast<std::uint32_t>(place / model.microbatches),
                              .microbatch = static_cast<std::uint32_t>(place % model.microbatches),
                              .bytes = static_cast<std::int64_t>(units * model.feed_bytes_per_llm_unit)});
      }
    }
  }
  return step;
}

}  // namespace isocost
