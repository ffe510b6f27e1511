#pragma once

#include <cstdint>
#include <string>

namespace isocost {

/// Dimensions of a transformer, from which memory, communication and parallelism follow. The
/// arithmetic is in docs/simulator.md.
struct Architecture {
  std::string name;  ///< Display name: "Qwen2.5-7B".
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;            ///< Attention heads. Tensor degrees divide them.
  std::int64_t key_value_width = 0;  ///< Below `width` if query heads share keys and values.
  std::int64_t mlp = 0;
  bool gated = false;  ///< Whether the MLP has three matrices instead of two.
  std::int64_t embedding_parameters =
      0;  ///< Parameters of the patch embedding, or of the token embedding and output head.
  std::int64_t head_flop_per_unit = 0;  ///< Forward FLOP of the output head.
  /// Experts of a layer whose MLP is a mixture; `mlp` is then the width of as many parameters. 0: a
  /// dense MLP.
  std::int64_t experts = 0;

  std::int64_t layer_parameters() const;
  std::int64_t parameters() const { return layers * layer_parameters() + embedding_parameters; }
  /// Returns the bytes that a layer keeps per unit for its backward pass (bf16, without attention
  /// scores).
  std::int64_t layer_activation_bytes_per_unit() const;
  /// Returns the output head as a number of layers, by FLOP.
  double head_layers() const;

  bool operator==(const Architecture&) const = default;

  /// Returns the dimensions of SigLIP-so400m: 27 layers of width 1,152.
  static Architecture siglip_so400m();
  /// Returns the dimensions of the encoder of Whisper large-v3: 32 layers of width 1,280.
  static Architecture whisper_large_v3();
  /// Returns the dimensions of Qwen2.5-7B: 28 layers of width 3,584; 28 query heads share 4 key and
  /// value heads.
  static Architecture qwen2_5_7b();
};

}  // namespace isocost
