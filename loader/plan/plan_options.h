#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "loader/plan/cursor.h"

namespace isocost {

/// How the samples of a global batch are shared out.
enum class BalancePolicy : std::uint8_t {
  kInOrder,  ///< Dealt in the order in which they were drawn.
  kTokens,   ///< LPT by LLM tokens, what a careful user does without a cost model.
  kCost,     ///< Equal predicted cost.
};

/// Names of the policies in flags and reports, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> kBalancePolicyNames = {"in-order", "tokens",
                                                                        "cost"};

/// What is drawn for each step, how it is planned, and for whom. See docs/config.md.
struct PlanOptions {
  std::int64_t ranks = 0;  ///< Data-parallel ranks; 0: as many as the first client says.
  std::int64_t global_batch_size = 64;
  std::int64_t microbatches = 4;  ///< Per rank and step.
  std::filesystem::path layout;   ///< File of `isocost plan`; empty: ranks are data-parallel only.
  std::int64_t epochs = 1;        ///< 0: without end.
  std::int64_t steps = 0;         ///< Limit of steps per epoch; 0: none.
  std::uint64_t seed = 0;
  ShufflePolicy shuffle = ShufflePolicy::kGlobal;
  TailPolicy tail = TailPolicy::kDeliver;
  BalancePolicy balance = BalancePolicy::kCost;
  std::int64_t lookahead = 1;          ///< Global batches composed together; 1: as they are drawn.
  std::int64_t microbatch_memory = 0;  ///< Cap on a microbatch's tensor bytes; 0: none.
  bool reprofile = false;  ///< Ask a trainer for a new profile once the model has drifted.

  /// Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

}  // namespace isocost
