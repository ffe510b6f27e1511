#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/schedule.h"
#include "base/result.h"

namespace isocost {

/// Over how many ranks a module is spread, and how: tensor × pipeline × data.
struct ModuleDegrees {
  std::size_t tensor = 1;
  std::size_t pipeline = 1;
  std::size_t data = 1;

  std::size_t ranks() const { return tensor * pipeline * data; }
  bool operator==(const ModuleDegrees&) const = default;
};

/// Where the encoder's work is done.
enum class EncoderPlace : std::uint8_t {
  kOwnRanks,  ///< On ranks of its own, before the LLM's, with its own degrees.
  kLlmRanks,  ///< Its layers stand before the LLM's in one pipeline, cut into the LLM's stages:
              ///< both modules have the LLM's degrees.
};

/// Whole layers, in the order of the model. Empty: cut as make_pipeline does.
struct LayerCut {
  /// Of each encoder stage; with EncoderPlace::kLlmRanks of each LLM chunk.
  std::vector<std::int64_t> encoder;
  /// Of each LLM chunk [pipeline × chunks]. The output head stands on the last one besides.
  std::vector<std::int64_t> llm;

  bool operator==(const LayerCut&) const = default;
};

/// How a job spreads encoder and LLM over its ranks. A file of it is JSON, see docs/layout.md.
struct Layout {
  EncoderPlace encoder_place = EncoderPlace::kOwnRanks;
  ModuleDegrees encoder = {};  ///< With kLlmRanks equal to `llm`.
  ModuleDegrees llm = {};
  std::size_t microbatches = 1;  ///< Of each LLM replica.
  std::size_t chunks = 1;        ///< Model chunks per LLM stage; above one with `interleaved`.
  Schedule schedule = Schedule::k1F1B;
  LayerCut layers = {};
  /// See PipelineStep; of an encoder with ranks of its own, at most `microbatches`.
  std::size_t encoder_ahead = 0;
  /// The microbatches of an encoder with ranks of its own are the LLM's, whatever would be faster:
  /// for trainers that hand over whole microbatches.
  bool coupled = false;
  /// What a stage's activations may take beside its weights; plans keep it where they can.
  ActivationCaps activation_caps = {};
  /// The machines, as Cluster::parse_interconnect reads them; empty: its defaults.
  std::string interconnect = {};

  std::size_t ranks() const {
    return llm.ranks() + (encoder_place == EncoderPlace::kOwnRanks ? encoder.ranks() : 0);
  }
  /// Errors: kInvalidArgument naming the field, its value and what is allowed.
  Status validate() const;
  /// What it costs whatever is done, for people: one line each.
  std::vector<std::string> warnings() const;
  bool operator==(const Layout&) const = default;

  /// Errors: kCorrupt naming the field that is missing, unknown, given twice, mistyped or out of
  /// range; kUnsupported for another version; and those of `validate`.
  static Result<Layout> parse(std::string_view json);
  /// Errors: kNotFound, kIo, and those of parse as error_of_file has them.
  static Result<Layout> load(const std::filesystem::path& file);
  std::string to_json() const;
  /// Equal for equal layouts: what a trainer tells its node.
  std::uint64_t fingerprint() const;
  /// "encoder 1x1x8, llm 2x7x4, 16 microbatches, 1f1b" (tensor × pipeline × data).
  std::string to_string() const;
};

}  // namespace isocost
