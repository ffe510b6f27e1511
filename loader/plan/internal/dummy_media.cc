#include "loader/plan/internal/dummy_media.h"

#include <algorithm>
#include <cstddef>

namespace isocost {

DummyMedia::DummyMedia(const PlanInput& input, const PlanOptions& options)
    : input_(input), always_(options.dummy_media == DummyMediaPolicy::kAlways) {
  if (options.dummy_media == DummyMediaPolicy::kOff) return;
  for (const DummyChoice& dummy : input.dummies) {
    const auto with = std::ranges::count_if(
        input.media, [&](ModalitySet media) { return (media & bit_of(dummy.modality)) != 0; });
    const bool everywhere = with == std::ssize(input.media);
    const bool nowhere = with == 0 || options.ranks < 2;
    if (everywhere || (nowhere && !always_)) continue;
    chosen_.push_back(dummy);
  }
}

Load DummyMedia::load() const {
  Load load;
  for (const DummyChoice& dummy : chosen_) load += dummy.load;
  return load;
}

ModalitySet DummyMedia::media_of(const PlannedMicrobatch& bin) const {
  ModalitySet media = 0;
  for (const PlannedSample& sample : bin.samples) media |= input_.media[sample.index];
  return media;
}

// Returns the modalities that every rank's microbatch of this number is to have.
ModalitySet DummyMedia::needed_at(const StepPlan& plan, std::uint32_t microbatch) const {
  ModalitySet needed = 0;
  for (std::size_t rank = 0; rank * plan.microbatches < plan.bins.size(); ++rank) {
    needed |= media_of(plan.bin(rank, microbatch));
  }
  for (const DummyChoice& dummy : chosen_) {
    if (always_) needed |= bit_of(dummy.modality);
  }
  return needed;
}

// A padded row with dummies at its end costs least where it is the shortest.
void DummyMedia::put_shortest_last(PlannedMicrobatch& bin) const {
  const auto shortest = std::ranges::min_element(bin.samples, {}, [&](const PlannedSample& sample) {
    return input_.loads[sample.index][CostModule::kLlm].units;
  });
  std::rotate(shortest, shortest + 1, bin.samples.end());
}

void DummyMedia::add_to(StepPlan& plan) const {
  if (empty()) return;  // the samples' media need not be known then
  std::vector<ModalitySet> needed;
  for (std::uint32_t m = 0; m < plan.microbatches; ++m) needed.push_back(needed_at(plan, m));
  for (std::size_t i = 0; i < plan.bins.size(); ++i) {
    const ModalitySet lacking = needed[i % plan.microbatches] & ~media_of(plan.bins[i]);
    for (std::size_t d = 0; d < chosen_.size(); ++d) {
      if ((lacking & bit_of(chosen_[d].modality)) == 0) continue;
      plan.bins[i].dummies.push_back(static_cast<std::uint32_t>(d));
    }
    if (!plan.bins[i].dummies.empty()) put_shortest_last(plan.bins[i]);
  }
  for (const DummyChoice& dummy : chosen_) plan.dummies.push_back(dummy);
}

std::vector<Load> with_dummies(std::vector<Load> samples, const std::vector<Load>& dummies,
                               bool padded) {
  if (!padded || samples.empty() || dummies.empty()) {
    samples.insert(samples.end(), dummies.begin(), dummies.end());
    return samples;
  }
  Load& last = samples.back();
  for (const Load& dummy : dummies) last += dummy;
  const std::int64_t tokens = last[CostModule::kLlm].units;
  last[CostModule::kLlm] = {};
  last[CostModule::kLlm].add_sequence(tokens);
  return samples;
}

}  // namespace isocost
