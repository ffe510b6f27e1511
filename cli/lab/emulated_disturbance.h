#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "base/result.h"

namespace isocost::cli {

/// A factor on seconds from step `from` to the step before `until`.
struct EmulatedChange {
  double factor = 1;
  std::size_t from = 0;
  std::size_t until = 0;

  double at(std::size_t step) const { return step >= from && step < until ? factor : 1; }
};

/// Changes of the passes' seconds that are hidden from the node.
struct EmulatedDisturbance {
  double noise = 0;           ///< Relative standard deviation of a microbatch's seconds.
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
