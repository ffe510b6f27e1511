#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "loader/plan/cursor.h"
#include "loader/plan/mixture/step_ranges.h"
#include "transport/wire/wire.h"

namespace isocost {

struct Layout;

/// Rules by which the samples of a global batch are divided among microbatches.
enum class BalancePolicy : std::uint8_t {
  kInOrder,  ///< Round robin in the order in which they were drawn.
  kTokens,   ///< LPT by LLM tokens, as a user without a cost model could do.
  kCost,     ///< Equal predicted cost.
};

/// Names of the policies in flags and reports, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> kBalancePolicyNames = {"in-order", "tokens",
                                                                        "cost"};

/// Treatment of a single sample that exceeds a limit of a microbatch.
enum class LongPolicy : std::uint8_t {
  kBad,       ///< The sample is bad.
  kTruncate,  ///< The sample loses whole turns from its end until it fits.
};

/// Treatment of microbatches that lack media of a modality, whose ranks would not run the model's
/// encoder. If ranks share its parameters or sum its gradients, they wait for one another in it.
enum class DummyMediaPolicy : std::uint8_t {
  kOff,  ///< They stay as they are.
  /// They get a dummy sample where the same microbatch of another rank has such media; the last one
  /// of a step, with which gradients are summed, where any microbatch of the step has.
  kNeeded,
  kAlways,  ///< They get a dummy sample of each modality that the model takes.
};

/// Upper limit of a step's mean number of samples per microbatch: a plan may put several times the
/// mean into one microbatch if its samples are small.
inline constexpr std::int64_t kMostMeanSamples = std::int64_t{kMaxSamples} / 4;

/// Options of which samples each step draws, how it is planned, and for whom. See docs/config.md.
struct PlanOptions {
  std::int64_t ranks = 0;  ///< Data-parallel ranks; 0: as many as the first client names.
  std::int64_t global_batch_size = 64;
  /// Microbatches per rank and step; 0: as few as the limits allow, chosen for each step, or 4
  /// without a limit.
  std::int64_t microbatches = 0;
  std::filesystem::path layout_file;     ///< File of `isocost plan`; empty: none.
  std::shared_ptr<const Layout> layout;  ///< Null: not read yet, or ranks are data-parallel only.
  std::int64_t epochs = 1;               ///< 0: without end.
  std::int64_t steps = 0;                ///< Limit of steps per epoch; 0: none.
  std::uint64_t seed = 0;
  SkippedSteps skip_steps;  ///< Left out of every epoch.
  ShufflePolicy shuffle = ShufflePolicy::kGlobal;
  std::int64_t shuffle_shards = 16;  ///< With kBlocks: shards of a window. See BlockOrder.
  TailPolicy tail = TailPolicy::kDeliver;
  BalancePolicy balance = BalancePolicy::kCost;
  std::int64_t lookahead = 1;  ///< Global batches composed together; 1: as they are drawn.
  // Limits of a microbatch, see MicrobatchLimits; 0: none.
  std::int64_t max_tokens = 0;         ///< LLM tokens.
  std::int64_t max_vision_tokens = 0;  ///< Patches.
  std::int64_t max_memory = 0;         ///< Predicted bytes of activations, and bytes of tensors.
  std::int64_t microbatch_memory = 0;  ///< Bytes of tensors.
  LongPolicy on_long = LongPolicy::kBad;
  /// Has no effect with a layout of several stages or with ranks for the encoder, nor with a recipe
  /// without dummies (see Recipe::dummy).
  DummyMediaPolicy dummy_media = DummyMediaPolicy::kNeeded;
  /// The trainer pads the LLM to a multiple of this length, if it pads.
  std::int64_t padded_multiple = 1;
  bool reprofile =
      false;  ///< Whether trainers are asked for a new profile once the model has drifted.
  /// Part of the training so far that measuring new profiles may take.
  double reprofile_budget = 0.005;

  /// Sets the layout, and ranks and microbatches to its numbers. Messages call it `file`.
  void use_layout(std::shared_ptr<const Layout> given, std::filesystem::path file);
  /// Reads layout_file unless there is a layout. Errors: those of Layout::load.
  Status read_layout();
  /// Checks the values. Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

}  // namespace isocost
