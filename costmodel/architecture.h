#pragma once

#include <cstdint>
#include <string>

namespace isocost {

/// A transformer's dimensions: what memory, communication and ways to split it follow from. The
/// arithmetic is in docs/simulator.md.
struct Architecture {
  std::string name;  ///< For people: "Qwen2.5-7B".
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

  bool operator==(const Architecture&) const = default;

  /// 27 layers of 1,152.
  static Architecture siglip_so400m();
  /// The encoder of Whisper large-v3: 32 layers of 1,280.
  static Architecture whisper_large_v3();
  /// 28 layers of 3,584; 28 query heads share 4 of keys and values.
  static Architecture qwen2_5_7b();
};

}  // namespace isocost
