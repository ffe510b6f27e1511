#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Orders in which a pipeline runs the passes of its microbatches.
enum class Schedule : std::uint8_t {
  kGpipe,            ///< All forward passes, then all backward passes.
  k1F1B,             ///< Fill, then alternate one forward and one backward pass, then drain.
  kInterleaved1F1B,  ///< 1F1B with several model chunks on every LLM stage.
  /// 1F1B with the backward pass split: gradients of inputs first, gradients of weights later,
  /// delayed such that no stage holds more microbatches than the first stage of 1F1B.
  kZbH1,
};

/// Returns "gpipe", "1f1b", "interleaved" or "zb-h1".
std::string_view schedule_name(Schedule schedule);
std::optional<Schedule> schedule_from_name(std::string_view name);

enum class PassKind : std::uint8_t {
  kForward,
  kBackward,  ///< The whole backward pass; in a split schedule only the gradients of the inputs.
  kWeights,   ///< Gradients of the weights, in a split schedule.
};

/// One pass of a stage.
struct Pass {
  PassKind kind = PassKind::kForward;
  std::uint32_t slot = 0;   ///< Index of the microbatch in the replica.
  std::uint32_t chunk = 0;  ///< Index of the model chunk in the stage.
  bool operator==(const Pass&) const = default;
};

/// Returns the order in which stage `stage` of `stages` runs its passes. It is static, as in
/// trainers. `held_back` is the number of microbatches by which kZbH1 delays gradients of weights
/// (the number of stages before this one). Errors: kInvalidArgument for zero stages, chunks or
/// microbatches, for several chunks in a schedule without chunks, and for an interleaved schedule
/// whose microbatches are not a multiple of the stages.
Result<std::vector<Pass>> stage_program(Schedule schedule, std::size_t stages, std::size_t stage,
                                        std::size_t chunks, std::size_t microbatches,
                                        std::size_t held_back);

/// Returns, for each microbatch, the number of microbatches that the pipeline's first stage takes
/// in before it returns the gradient of that microbatch [microbatches]. A module that feeds the
/// pipeline must run ahead by at least this much. Errors: those of stage_program().
Result<std::vector<std::uint32_t>> taken_before(Schedule schedule, std::size_t stages,
                                                std::size_t chunks, std::size_t microbatches);

/// The first and last microbatch that a slot of a feeding stage contributes to.
struct FedMicrobatches {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Returns the number of forward passes of a feeding stage that precede each slot's backward pass
/// [slots]. These are the slots that feed any microbatch taken in before the slot's gradients are
/// returned, plus those of the next `lead` microbatches, so that the fed pipeline need not wait.
/// `taken` comes from taken_before().
std::vector<std::uint32_t> forwards_before(const std::vector<std::uint32_t>& taken,
                                           std::span<const FedMicrobatches> slots,
                                           std::size_t lead);

/// Returns the program of a stage that feeds a pipeline. `forwards_before[s]` forward passes
/// precede slot s's backward pass: at least s + 1, not descending, at most the number of slots.
std::vector<Pass> feeding_program(Schedule schedule,
                                  const std::vector<std::uint32_t>& forwards_before,
                                  std::size_t held_back);

}  // namespace isocost
