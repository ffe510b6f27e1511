#include "costmodel/sample_cost.h"

namespace isocost {
namespace {

constexpr std::int64_t kSequence = 1024;

}  // namespace

SampleCost mean(std::span<const SampleCost> samples) {
  SampleCost sum;
  for (const SampleCost& sample : samples) sum += sample;
  const auto n = static_cast<double>(samples.size());
  return {sum.encoder_s / n, sum.llm_s / n, sum.encoder_units / n, sum.llm_units / n};
}

SamplePrices::SamplePrices(const CostProfile& profile)
    : predictors_{ModulePredictor(profile.modules[0]), ModulePredictor(profile.modules[1]),
                  ModulePredictor(profile.modules[2])} {}

SampleCost SamplePrices::of(const Load& load) const {
  const auto seconds = [&](CostModule module) {
    return predictors_.at(static_cast<std::size_t>(module)).sample(load[module]);
  };
  return {.encoder_s = seconds(CostModule::kVision) + seconds(CostModule::kAudio),
          .llm_s = seconds(CostModule::kLlm),
          .encoder_units =
              static_cast<double>(load[CostModule::kVision].units + load[CostModule::kAudio].units),
          .llm_units = static_cast<double>(load[CostModule::kLlm].units)};
}

Load load_of_counts(std::int64_t encoder_units, std::int64_t llm_tokens) {
  Load load;
  ModuleLoad& encoder = load[CostModule::kVision];
  const std::int64_t whole = encoder_units / kSequence;
  encoder = {.sequences = whole,
             .units = whole * kSequence,
             .units_squared = whole * kSequence * kSequence};
  if (encoder_units % kSequence > 0) encoder.add_sequence(encoder_units % kSequence);
  if (llm_tokens > 0) load[CostModule::kLlm].add_sequence(llm_tokens);
  return load;
}

}  // namespace isocost
