// The built-in profile: FLOP of forward and backward over an assumed throughput. The arithmetic is
// derived in docs/cost_model.md; keep both consistent.
#include "costmodel/profile.h"

namespace isocost {
namespace {

// 312 TFLOP/s (bf16 peak of an A100) at 40 % utilisation.
constexpr double kFlopPerSecond = 312e12 * 0.40;
// The backward pass takes twice as long as the forward pass.
constexpr double kPasses = 3;
// Per layer, forward and backward: about 30 kernels, each 5 us to launch.
constexpr double kLaunchesPerLayerSeconds = 30 * 5e-6;

constexpr ModuleCoefficients priced(double layers, double flop_per_unit, double flop_per_pair) {
  return {.per_microbatch = layers * kLaunchesPerLayerSeconds,
          .per_sequence = 0,
          .per_unit = kPasses * flop_per_unit / kFlopPerSecond,
          .per_unit_squared = kPasses * flop_per_pair / kFlopPerSecond};
}

// SigLIP-so400m: 27 layers, width 1152, MLP 4304, patches of 14x14x3. Attention is bidirectional.
constexpr ModuleCoefficients vision() {
  constexpr double kLayers = 27;
  constexpr double kWidth = 1152;
  constexpr double kMlp = 4304;
  constexpr double kEmbed = 2.0 * 14 * 14 * 3 * kWidth;
  return priced(kLayers, kLayers * (8 * kWidth * kWidth + 4 * kWidth * kMlp) + kEmbed,
                kLayers * 4 * kWidth);
}

// The encoder of Whisper large-v3: 32 layers, width 1280, MLP 5120; a position is two mel frames of
// 128 bins through two convolutions of width 3.
constexpr ModuleCoefficients audio() {
  constexpr double kLayers = 32;
  constexpr double kWidth = 1280;
  constexpr double kMlp = 5120;
  constexpr double kStem = 2.0 * 2 * 3 * 128 * kWidth + 2.0 * 3 * kWidth * kWidth;
  return priced(kLayers, kLayers * (8 * kWidth * kWidth + 4 * kWidth * kMlp) + kStem,
                kLayers * 4 * kWidth);
}

// Qwen2.5-7B: 28 layers, width 3584, 4 of 28 heads for keys and values, gated MLP 18944, vocabulary
// 152064. Causal attention touches half of the pairs.
constexpr ModuleCoefficients llm() {
  constexpr double kLayers = 28;
  constexpr double kWidth = 3584;
  constexpr double kKeyValue = 512;
  constexpr double kMlp = 18944;
  constexpr double kVocabulary = 152064;
  constexpr double kProjections = 2 * (2 * kWidth * kWidth + 2 * kWidth * kKeyValue);
  return priced(kLayers, kLayers * (kProjections + 6 * kWidth * kMlp) + 2 * kWidth * kVocabulary,
                kLayers * 2 * kWidth);
}

}  // namespace

CostProfile CostProfile::stated_default() {
  CostProfile profile;
  profile.modules[0].coefficients = vision();
  profile.modules[1].coefficients = audio();
  profile.modules[2].coefficients = llm();
  profile.modules[0].architecture = Architecture::siglip_so400m();
  profile.modules[1].architecture = Architecture::whisper_large_v3();
  profile.modules[2].architecture = Architecture::qwen2_5_7b();
  profile.source = kBuiltIn;
  return profile;
}

}  // namespace isocost
