#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "base/load.h"
#include "base/result.h"

namespace isocost::cli {

/// A factor on seconds from step `from` to the step before `until`.
struct EmulatedChange {
  double factor = 1;
  std::size_t from = 0;
  std::size_t until = 0;

  double at(std::size_t step) const { return step >= from && step < until ? factor : 1; }
};

/// Samples whose LLM takes longer than the model profile says: those with a length in a range.
struct EmulatedAnomalies {
  double share = 0;   ///< Share of the samples that was asked for; 0: none.
  double factor = 1;  ///< Factor on their seconds in the LLM.
  std::int64_t shortest = 0;
  std::int64_t longest = -1;  ///< Last length of the range; below `shortest`: none.

  bool has(const Load& sample) const {
    const std::int64_t units = sample[CostModule::kLlm].units;
    return units >= shortest && units <= longest;
  }
  /// Chooses a range of lengths that holds `share` of the samples. The seed decides which.
  void choose_lengths(std::span<const Load> samples, std::uint64_t seed);
};

/// Changes of the passes' seconds that are hidden from the node.
struct EmulatedDisturbance {
  double noise = 0;           ///< Relative standard deviation of a microbatch's seconds.
  double measuring_cost = 0;  ///< Share of a pass that measuring takes in addition.
  EmulatedAnomalies anomalies = {};
  std::size_t slow_rank = 0;  ///< Data index of a replica of both modules.
  EmulatedChange slow = {};   ///< Affects all passes of slow_rank.
  EmulatedChange encoder = {};
  EmulatedChange llm = {};
  std::uint64_t seed = 0;
};

/// The flags that describe a disturbance.
struct DisturbanceText {
  double noise = 0;
  std::string slow_rank = {};             ///< Text like "3:1.2@50-150"; empty: none.
  std::vector<std::string> changes = {};  ///< Texts like "encoder:3@100" or "llm:1.5@20-40".
  std::string anomalies = {};             ///< Text like "0.05:1.5"; empty: none.
  double measuring_cost = 0;

  /// Returns whether they have anomalies, which correction reduces, or a cost of measuring.
  bool weighs_correction() const { return !anomalies.empty() || measuring_cost > 0; }
};

/// Parses the flags for a job of `ranks` data indexes. Errors: kInvalidArgument naming the flag,
/// its value and what it must be.
Result<EmulatedDisturbance> parse_disturbance(const DisturbanceText& text, std::size_t ranks);

/// Identifies a microbatch of a replica.
struct EmulatedWork {
  bool encoder = false;
  std::size_t replica = 0;
  std::size_t step = 0;
  std::size_t microbatch = 0;
};

/// Returns the load with the disturbance. Noise depends on seed and work only.
SampleCost disturbed(const EmulatedDisturbance& by, const EmulatedWork& work, SampleCost load);

}  // namespace isocost::cli
