#include "cli/lab/emulated_work.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace isocost::cli {
namespace {

// [encoder replicas]: the slots that feed something, renumbered without gaps.
using SlotNumbers = std::vector<std::map<std::uint32_t, std::uint32_t>>;

SlotNumbers number_slots(const EmulatedMicrobatches& encoder, const EmulatedMicrobatches& llm) {
  SlotNumbers numbers(encoder.size());
  for (const auto& replica : llm) {
    for (const EmulatedMicrobatch& microbatch : replica) {
      for (const EmulatedFeed& feed : microbatch.feeds) {
        numbers[feed.encoder_replica].emplace(feed.slot, 0);
      }
    }
  }
  for (auto& replica : numbers) {
    std::uint32_t next = 0;
    for (auto& [slot, number] : replica) number = next++;
  }
  return numbers;
}

void add_encoder(const PipelineModel& model, const EmulatedMicrobatches& encoder,
                 const SlotNumbers& numbers, PipelineStep& step) {
  step.encoder.stages = model.encoder.stages;
  step.encoder.transfers = model.encoder.transfers;
  step.encoder_ahead = model.encoder_ahead;
  std::vector<StagePass> passes(model.encoder.stages);
  for (std::uint32_t e = 0; e < encoder.size(); ++e) {
    auto& of_replica = step.encoder.passes.emplace_back();
    for (const auto& [slot, number] : numbers[e]) {
      encoder_passes(model, encoder[e][slot].load, passes);
      of_replica.insert(of_replica.end(), passes.begin(), passes.end());
    }
  }
  add_idle_slots(step);
}

}  // namespace

PipelineStep work_of(const PipelineModel& model, const EmulatedMicrobatches& encoder,
                     const EmulatedMicrobatches& llm) {
  PipelineModel llm_alone = model;
  llm_alone.encoder.stages = 0;
  std::vector<SampleCost> loads;
  for (const auto& replica : llm) {
    for (const EmulatedMicrobatch& microbatch : replica) loads.push_back(microbatch.load);
  }
  PipelineStep step = make_step(llm_alone, loads);
  if (encoder.empty()) return step;
  const SlotNumbers numbers = number_slots(encoder, llm);
  add_encoder(model, encoder, numbers, step);
  for (std::uint32_t r = 0; r < llm.size(); ++r) {
    for (std::uint32_t m = 0; m < llm[r].size(); ++m) {
      for (const EmulatedFeed& feed : llm[r][m].feeds) {
        step.feeds.push_back(
            {feed.encoder_replica, numbers[feed.encoder_replica].at(feed.slot), r, m, feed.bytes});
      }
    }
  }
  return step;
}

bool is_coupled(const EmulatedMicrobatches& llm) {
  std::set<std::pair<std::size_t, std::size_t>> slots;
  for (const auto& replica : llm) {
    for (const EmulatedMicrobatch& microbatch : replica) {
      if (microbatch.feeds.size() > 1) return false;
      for (const EmulatedFeed& feed : microbatch.feeds) {
        if (!slots.emplace(feed.encoder_replica, feed.slot).second) return false;
      }
    }
  }
  return true;
}

}  // namespace isocost::cli
