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

/// A module of a layout: the encoders of all modalities together, or the LLM.
enum class LayoutModule : std::uint8_t { kEncoder, kLlm };

/// The coordinates of a rank in a layout. With EncoderPlacement::kLlmRanks every rank belongs to
/// the LLM.
struct Place {
  LayoutModule module = LayoutModule::kLlm;
  std::size_t data = 0;    ///< Index of the module's replica.
  std::size_t stage = 0;   ///< Index of the stage in the module's pipeline.
  std::size_t tensor = 0;  ///< Index in the stage's tensor-parallel group.

  bool operator==(const Place&) const = default;
  /// Returns a text like "llm, data 1, stage 0, tensor 3".
  std::string to_string() const;
};

/// Returns the place of a rank. The encoder's own ranks precede the LLM's. Within a module, the
/// tensor index varies fastest, then data, then stage (Megatron-LM's default order). Errors:
/// kInvalidArgument for a rank that the layout does not have.
Result<Place> place_of(const Layout& layout, std::size_t rank);
/// Returns the rank of a place. Errors: kInvalidArgument naming the index outside the layout.
Result<std::size_t> rank_of(const Layout& layout, const Place& place);

/// Returns the number of receivers. Places that differ only in their tensor index compute on the
/// same bytes, so they share a receiver: the leading rank of their tensor-parallel group, which
/// receives the data from the node and passes it to the others. Receivers are numbered in the order
/// of their ranks.
std::size_t receivers(const Layout& layout);
/// Returns the receiver of a place. Errors: those of rank_of().
Result<std::size_t> receiver_of(const Layout& layout, const Place& place);
/// Returns the receiver's place, with tensor index 0. `receiver` must be below receivers().
Place place_of_receiver(const Layout& layout, std::size_t receiver);

/// The work of a stage, which determines the tensors that it reads.
struct StageWork {
  bool embeds_media =
      false;  ///< Whether it has the encoder's first layer and reads pixels and mel frames.
  bool embeds_tokens =
      false;  ///< Whether it has the LLM's first layer and reads token ids and positions.
  bool predicts =
      false;  ///< Whether it has the LLM's output head and reads labels and loss weights.
  /// The stage's part of each module's work, 0 to 1. Above 0, the stage has layers of the module
  /// and reads its sequence lengths.
  std::array<double, kModules> shares{};

  bool operator==(const StageWork&) const = default;
};

/// Returns the work of the stage at `place` in the layout's pipeline. Errors: those of rank_of().
Result<StageWork> stage_work(const Layout& layout, const PipelineModel& pipeline,
                             const Place& place);

}  // namespace isocost
