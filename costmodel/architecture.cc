#include "costmodel/architecture.h"

namespace isocost {
namespace {

constexpr std::int64_t kBf16 = 2;

}  // namespace

std::int64_t Architecture::layer_parameters() const {
  const std::int64_t attention = 2 * width * width + 2 * width * key_value_width;
  return attention + (gated ? 3 : 2) * width * mlp;
}

// Counts inputs and outputs of both norms, query, key, value, attention output; then the MLP's
// inner values: before and after the activation, and the gate's product if there is one.
std::int64_t Architecture::layer_activation_bytes_per_unit() const {
  return kBf16 * (6 * width + 2 * key_value_width + (gated ? 3 : 2) * mlp);
}

double Architecture::head_layers() const {
  return static_cast<double>(head_flop_per_unit) / static_cast<double>(2 * layer_parameters());
}

Architecture Architecture::siglip_so400m() {
  return {.name = "SigLIP-so400m",
          .layers = 27,
          .width = 1152,
          .heads = 16,
          .key_value_width = 1152,
          .mlp = 4304,
          .embedding_parameters = std::int64_t{14 * 14 * 3 + 729} * 1152};
}

// The stem has two convolutions of width 3 over 128 mel bins, and 1,500 learned positions.
Architecture Architecture::whisper_large_v3() {
  return {.name = "Whisper large-v3 encoder",
          .layers = 32,
          .width = 1280,
          .heads = 20,
          .key_value_width = 1280,
          .mlp = 5120,
          .embedding_parameters = std::int64_t{3 * 128 + 3 * 1280 + 1500} * 1280};
}

Architecture Architecture::qwen2_5_7b() {
  constexpr std::int64_t kVocabulary = 152'064;
  return {.name = "Qwen2.5-7B",
          .layers = 28,
          .width = 3584,
          .heads = 28,
          .key_value_width = 512,
          .mlp = 18'944,
          .gated = true,
          .embedding_parameters = 2 * kVocabulary * 3584,
          .head_flop_per_unit = 2 * kVocabulary * 3584};
}

}  // namespace isocost
