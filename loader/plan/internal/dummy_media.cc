#include "loader/plan/internal/dummy_media.h"

#include <algorithm>

namespace isocost {
namespace {

std::int64_t tokens_of(const Load& load) { return load[CostModule::kLlm].units; }

MicrobatchBins bins_of(const StepPlan& plan) {
  MicrobatchBins bins(plan.bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) {
    for (const PlannedSample& sample : plan.bins[i].samples) bins[i].push_back(sample.index);
  }
  return bins;
}

}  // namespace

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

ModalitySet DummyMedia::media_of(const std::vector<std::uint32_t>& bin) const {
  ModalitySet media = 0;
  for (const std::uint32_t sample : bin) media |= input_.media[sample];
  return media;
}

// Returns the modalities that every rank's microbatch of each number is to have. With the last one
// gradients are summed, for which DistributedDataParallel waits until each parameter has one: it
// has the modalities of the whole step.
std::vector<ModalitySet> DummyMedia::needed(const MicrobatchBins& bins,
                                            std::size_t microbatches) const {
  std::vector<ModalitySet> needed(microbatches, 0);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    needed[i % microbatches] |= media_of(bins[i]);
    needed.back() |= media_of(bins[i]);
  }
  if (!always_) return needed;
  for (ModalitySet& of_microbatch : needed) {
    for (const DummyChoice& dummy : chosen_) of_microbatch |= bit_of(dummy.modality);
  }
  return needed;
}

// Returns the indexes of the dummies that a microbatch gets.
std::vector<std::uint32_t> DummyMedia::lacking(const std::vector<std::uint32_t>& bin,
                                               ModalitySet needed) const {
  const ModalitySet lacking = needed & ~media_of(bin);
  std::vector<std::uint32_t> dummies;
  for (std::uint32_t d = 0; d < chosen_.size(); ++d) {
    if ((lacking & bit_of(chosen_[d].modality)) != 0) dummies.push_back(d);
  }
  return dummies;
}

std::vector<Load> DummyMedia::loads_of(const std::vector<std::uint32_t>& bin) const {
  std::vector<Load> loads;
  loads.reserve(bin.size());
  for (const std::uint32_t sample : bin) loads.push_back(input_.loads[sample]);
  return loads;
}

bool DummyMedia::keep_limits(const MicrobatchBins& bins, std::size_t microbatches,
                             const CostModel& model, const MicrobatchLimits& limits) const {
  if (empty()) return true;
  const std::vector<ModalitySet> at = needed(bins, microbatches);
  const bool padded = model.is_padded(CostModule::kLlm);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i].size() < 2) continue;  // no other division gives its sample more room
    std::vector<Load> dummies;
    for (const std::uint32_t d : lacking(bins[i], at[i % microbatches])) {
      dummies.push_back(chosen_[d].load);
    }
    if (dummies.empty()) continue;
    std::vector<Load> samples = loads_of(bins[i]);
    const auto shortest = std::ranges::min_element(samples, {}, tokens_of);
    std::rotate(shortest, shortest + 1, samples.end());
    const bool kept = limits.keeps(model.as_run(with_dummies(std::move(samples), dummies, padded)));
    if (!kept) return false;
  }
  return true;
}

void DummyMedia::add_to(StepPlan& plan) const {
  if (empty()) return;  // the samples' media need not be known then
  const MicrobatchBins bins = bins_of(plan);
  const std::vector<ModalitySet> at = needed(bins, plan.microbatches);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    PlannedMicrobatch& bin = plan.bins[i];
    bin.dummies = lacking(bins[i], at[i % plan.microbatches]);
    if (bin.dummies.empty()) continue;
    const auto shortest = std::ranges::min_element(
        bin.samples, {},
        [&](const PlannedSample& sample) { return tokens_of(input_.loads[sample.index]); });
    std::rotate(shortest, shortest + 1, bin.samples.end());
  }
  plan.dummies = chosen_;
}

std::vector<Load> with_dummies(std::vector<Load> samples, const std::vector<Load>& dummies,
                               bool padded) {
  if (!padded || samples.empty() || dummies.empty()) {
    samples.insert(samples.end(), dummies.begin(), dummies.end());
    return samples;
  }
  Load& last = samples.back();
  for (const Load& dummy : dummies) last += dummy;
  const std::int64_t tokens = tokens_of(last);
  last[CostModule::kLlm] = {};
  last[CostModule::kLlm].add_sequence(tokens);
  return samples;
}

}  // namespace isocost
