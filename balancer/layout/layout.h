#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/layout/module_training.h"
#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/schedule.h"
#include "base/result.h"

namespace isocost {

/// Parallelism degrees of a module: it runs on tensor × pipeline × data ranks.
struct ModuleDegrees {
  std::size_t tensor = 1;
  std::size_t pipeline = 1;
  std::size_t data = 1;
  /// Replicas over which weights, gradients and optimizer state are sharded: all of `data` (FSDP),
  /// or a divisor of it (HSDP). 1: every replica holds the weights. Above 1 with one stage alone.
  std::size_t shard = 1;

  std::size_t ranks() const { return tensor * pipeline * data; }
  bool operator==(const ModuleDegrees&) const = default;
};

/// The ranks that do the encoder's work.
enum class EncoderPlacement : std::uint8_t {
  kOwnRanks,  ///< Its own ranks, before the LLM's, with its own degrees.
  kLlmRanks,  ///< The LLM's ranks: the encoder's layers precede the LLM's in one pipeline, which is
              ///< cut into the LLM's stages. Both modules have the LLM's degrees.
};

/// The number of whole layers in each part of the modules, in the order of the model. An empty list
/// means that layer_cut() chooses.
struct LayerCut {
  /// Layers per encoder stage; with EncoderPlacement::kLlmRanks per LLM chunk.
  std::vector<std::int64_t> encoder;
  /// Layers per LLM chunk [pipeline × chunks]. The last chunk has the output head in addition.
  std::vector<std::int64_t> llm;

  bool operator==(const LayerCut&) const = default;
};

/// The division of a job's encoder and LLM over its ranks. The file format is JSON, see
/// docs/layout.md.
struct Layout {
  EncoderPlacement encoder_place = EncoderPlacement::kOwnRanks;
  ModuleDegrees encoder = {};  ///< Equal to `llm` with EncoderPlacement::kLlmRanks.
  ModuleDegrees llm = {};
  ModuleTraining encoder_training = {};
  ModuleTraining llm_training = {};
  /// Whether every replica holds the whole optimizer state of what it trains, instead of its part
  /// of it (ZeRO stage 1).
  bool replicated_optimizer = false;
  std::size_t microbatches = 1;  ///< Microbatches per LLM replica and step.
  std::size_t chunks = 1;        ///< Model chunks per LLM stage; above one with kInterleaved1F1B.
  Schedule schedule = Schedule::k1F1B;
  LayerCut layers = {};
  /// See PipelineStep. Only for an encoder with its own ranks; at most `microbatches`.
  std::size_t encoder_ahead = 0;
  /// Whether the encoder's microbatches are always the LLM's, although it has its own ranks. For
  /// trainers that transfer whole microbatches between the modules.
  bool coupled = false;
  /// Caps on a stage's activations, in addition to its weights. Plans keep them if they can.
  ActivationCaps activation_caps = {};
  /// The interconnect, in the format of Cluster::parse_interconnect. Empty: its defaults.
  std::string interconnect = {};

  std::size_t ranks() const {
    return llm.ranks() + (encoder_place == EncoderPlacement::kOwnRanks ? encoder.ranks() : 0);
  }
  /// Checks the values. Errors: kInvalidArgument naming the field, its value and the allowed range.
  Status validate() const;
  /// Returns known inefficiencies of the layout, and what may be ambiguous, one line each, for the
  /// user.
  std::vector<std::string> warnings() const;
  bool operator==(const Layout&) const = default;

  /// Parses JSON. Errors: kCorrupt naming the field that is missing, unknown, duplicated, mistyped
  /// or out of range; kUnsupported for another version; and those of validate().
  static Result<Layout> parse(std::string_view json);
  /// Reads and parses a file. Errors: kNotFound, kIo, and those of parse() with the file's name.
  static Result<Layout> load(const std::filesystem::path& file);
  std::string to_json() const;
  /// Returns a hash that is equal for equal layouts. Trainers send it to their node.
  std::uint64_t fingerprint() const;
  /// Returns a line like "encoder 1x1x8, llm 2x7x4, 16 microbatches, 1f1b" (tensor × pipeline ×
  /// data).
  std::string to_string() const;
};

}  // namespace isocost
