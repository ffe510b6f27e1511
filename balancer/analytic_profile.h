#pragma once

#include <cstdint>
#include <string>

#include "balancer/pipeline_model.h"
#include "base/load.h"
#include "costmodel/cost_model.h"

namespace isocost {

/// A transformer's dimensions: what memory and communication follow from. The arithmetic is in
/// docs/simulator.md.
struct ModuleShape {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;            ///< Attention heads; tensor degrees divide them.
  std::int64_t key_value_width = 0;  ///< Below `width` where query heads share keys and values.
  std::int64_t mlp = 0;
  bool gated = false;                     ///< Three MLP matrices instead of two.
  std::int64_t embedding_parameters = 0;  ///< Patch embedding; token embedding and output head.
  std::int64_t head_flop_per_unit = 0;    ///< Forward, of the output head.

  std::int64_t layer_parameters() const;
  std::int64_t parameters() const { return layers * layer_parameters() + embedding_parameters; }
  /// Bytes that a layer keeps of one unit for its backward pass (bf16, attention without scores).
  std::int64_t layer_activation_bytes_per_unit() const;
  /// The output head as a number of layers, by FLOP.
  double head_layers() const;
};

struct ModelShape {
  ModuleShape encoder;
  ModuleShape llm;

  /// SigLIP-so400m and Qwen2.5-7B: 27 layers of 1,152 and 28 of 3,584 (28 query heads share 4 of
  /// keys and values).
  static ModelShape siglip_qwen2_5_7b();
};

/// A sample's load in a profile's seconds: vision and audio are one encoder. Without the fixed
/// seconds of a microbatch.
PipelineLoad price(const CostProfile& profile, const Load& load);

/// A load of which only the totals are known, as in a trace: encoder units count as vision patches
/// in sequences of 1,024 (the last one shorter), LLM tokens as one sequence.
Load load_of_counts(std::int64_t encoder_units, std::int64_t llm_tokens);

}  // namespace isocost
