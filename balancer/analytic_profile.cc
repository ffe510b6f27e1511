#include "balancer/analytic_profile.h"

namespace isocost {
namespace {

constexpr std::int64_t kSequence = 1024;
constexpr std::int64_t kBf16 = 2;

}  // namespace

std::int64_t ModuleShape::layer_parameters() const {
  const std::int64_t attention = 2 * width * width + 2 * width * key_value_width;
  return attention + (gated ? 3 : 2) * width * mlp;
}

// Inputs and outputs of both norms, query, key, value, attention output; then the MLP's inner
// values: before and after the activation, and the gate's product where there is one.
std::int64_t ModuleShape::layer_activation_bytes_per_unit() const {
  return kBf16 * (6 * width + 2 * key_value_width + (gated ? 3 : 2) * mlp);
}

double ModuleShape::head_layers() const {
  return static_cast<double>(head_flop_per_unit) / static_cast<double>(2 * layer_parameters());
}

ModelShape ModelShape::siglip_qwen2_5_7b() {
  constexpr std::int64_t kVocabulary = 152'064;
  return {.encoder = {.name = "SigLIP-so400m",
                      .layers = 27,
                      .width = 1152,
                      .heads = 16,
                      .key_value_width = 1152,
                      .mlp = 4304,
                      .embedding_parameters = std::int64_t{14 * 14 * 3 + 729} * 1152},
          .llm = {.name = "Qwen2.5-7B",
                  .layers = 28,
                  .width = 3584,
                  .heads = 28,
                  .key_value_width = 512,
                  .mlp = 18'944,
                  .gated = true,
                  .embedding_parameters = 2 * kVocabulary * 3584,
                  .head_flop_per_unit = 2 * kVocabulary * 3584}};
}

PipelineLoad price(const CostProfile& profile, const Load& load) {
  const auto seconds = [&](Module module) {
    ModuleCoefficients terms = profile.modules.at(static_cast<std::size_t>(module));
    terms.per_microbatch = 0;
    return predict(terms, load[module]).count();
  };
  return {.encoder_s = seconds(Module::kVision) + seconds(Module::kAudio),
          .llm_s = seconds(Module::kLlm),
          .encoder_units =
              static_cast<double>(load[Module::kVision].units + load[Module::kAudio].units),
          .llm_units = static_cast<double>(load[Module::kLlm].units)};
}

Load load_of_counts(std::int64_t encoder_units, std::int64_t llm_tokens) {
  Load load;
  ModuleLoad& encoder = load[Module::kVision];
  const std::int64_t whole = encoder_units / kSequence;
  encoder = {.sequences = whole,
             .units = whole * kSequence,
             .units_squared = whole * kSequence * kSequence};
  if (encoder_units % kSequence > 0) encoder.add_sequence(encoder_units % kSequence);
  if (llm_tokens > 0) load[Module::kLlm].add_sequence(llm_tokens);
  return load;
}

}  // namespace isocost
