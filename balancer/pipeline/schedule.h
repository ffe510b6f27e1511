#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// How a pipeline interleaves the passes of its microbatches.
enum class Schedule : std::uint8_t {
  kGpipe,            ///< All forward passes, then all backward passes.
  k1F1B,             ///< Fill, then one forward and one backward in turn, then drain.
  kInterleaved1F1B,  ///< 1F1B where every LLM stage holds several chunks of the model.
  kZbH1,  ///< 1F1B with the backward pass split: gradients of inputs at once, of weights later,
          ///< held back so that no stage keeps more microbatches than 1F1B's first stage.
};

/// "gpipe", "1f1b", "interleaved", "zb-h1".
std::string_view schedule_name(Schedule schedule);
std::optional<Schedule> schedule_from_name(std::string_view name);

enum class PassKind : std::uint8_t {
  kForward,
  kBackward,  ///< Whole, or with a split schedule the gradients of the inputs only.
  kWeights,   ///< Gradients of the weights, where the schedule splits them off.
};

/// One thing that a stage does in a step.
struct Pass {
  PassKind kind = PassKind::kForward;
  std::uint32_t slot = 0;   ///< Microbatch of the replica.
  std::uint32_t chunk = 0;  ///< Of the stage's model chunks.
  bool operator==(const Pass&) const = default;
};

/// The order in which stage `stage` of `stages` runs its passes: a static program, as trainers have
/// it. `held_back` is the number of microbatches by which kZbH1 delays weight gradients (the stages
/// before this one). Errors: kInvalidArgument for no stages, chunks or microbatches, more than one
/// chunk in a schedule that has none, and microbatches that are no multiple of the stages where
/// chunks interleave.
Result<std::vector<Pass>> stage_program(Schedule schedule, std::size_t stages, std::size_t stage,
                                        std::size_t chunks, std::size_t microbatches,
                                        std::size_t held_back);

/// How many microbatches the first stage of such a pipeline takes in before it gives back the
/// gradient of each [microbatches]: so far at least must run ahead what feeds it. Errors: as
/// stage_program.
Result<std::vector<std::uint32_t>> taken_before(Schedule schedule, std::size_t stages,
                                                std::size_t chunks, std::size_t microbatches);

/// The microbatches, first to last, that a slot of a feeding stage enters.
struct FedMicrobatches {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// How many forward passes of a feeding stage precede each slot's backward pass [slots]: of those
/// slots that enter the microbatches taken in before the slot's gradients are given back, and
/// `lead` microbatches further, so that what is fed need not wait. `taken` is that of taken_before.
std::vector<std::uint32_t> forwards_before(const std::vector<std::uint32_t>& taken,
                                           std::span<const FedMicrobatches> slots,
                                           std::size_t lead);

/// The program of a stage that feeds such a pipeline. `forwards_before[s]` forward passes precede
/// slot s's backward pass (at least s + 1, not descending, at most the number of slots).
std::vector<Pass> feeding_program(Schedule schedule,
                                  const std::vector<std::uint32_t>& forwards_before,
                                  std::size_t held_back);

}  // namespace isocost
