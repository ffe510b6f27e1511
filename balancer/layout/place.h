#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "balancer/layout/layout.h"
#include "balancer/pipeline/pipeline_model.h"
#include "base/load.h"
#include "base/result.h"

namespace isocost {

/// A module as a layout spreads it: the encoders of all modalities together, or the LLM.
enum class LayoutModule : std::uint8_t { kEncoder, kLlm };

/// Where in a layout a rank stands. With EncoderPlace::kLlmRanks all ranks are the LLM's.
struct Place {
  LayoutModule module = LayoutModule::kLlm;
  std::size_t data = 0;    ///< Replica of the module.
  std::size_t stage = 0;   ///< Of the module's pipeline.
  std::size_t tensor = 0;  ///< In the stage's tensor-parallel group.

  bool operator==(const Place&) const = default;
  /// "llm, data 1, stage 0, tensor 3".
  std::string to_string() const;
};

/// A layout's ranks in order: the encoder's own before the LLM's; within a module the tensor index
/// is the fastest, then data, then stage (Megatron-LM's default order). Errors: kInvalidArgument
/// for a rank that the layout does not have.
Result<Place> place_of(const Layout& layout, std::size_t rank);
/// The inverse. Errors: kInvalidArgument naming the index that is outside the layout.
Result<std::size_t> rank_of(const Layout& layout, const Place& place);

/// Places that differ in their tensor index alone compute on the same bytes. They share a receiver:
/// one of them takes what a node delivers and hands it to the others. Seats are numbered in the
/// order of their ranks.
std::size_t receivers(const Layout& layout);
/// Errors: as rank_of.
Result<std::size_t> receiver_of(const Layout& layout, const Place& place);
/// The receiver's place with tensor index 0. `receiver` is below `receivers`.
Place place_of_receiver(const Layout& layout, std::size_t receiver);

/// What a stage does, and so what it reads of a microbatch.
struct StageWork {
  bool embeds_media = false;   ///< The encoder's first layer: it reads pixels and mels.
  bool embeds_tokens = false;  ///< The LLM's first layer: token ids, positions, media's outputs.
  bool predicts = false;       ///< The LLM's output head: labels and weights.
  /// Parts of each module's work, 0 to 1: above 0 some layer of it, which needs the sequences'
  /// lengths.
  std::array<double, kModules> shares{};

  bool operator==(const StageWork&) const = default;
};

/// Of `place`, in the pipeline that the layout makes. Errors: as rank_of.
Result<StageWork> stage_work(const Layout& layout, const PipelineModel& pipeline,
                             const Place& place);

}  // namespace isocost
