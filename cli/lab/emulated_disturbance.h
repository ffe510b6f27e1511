#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "base/result.h"

namespace isocost::cli {

/// In steps from `from` until before `until` seconds are multiplied by `factor`.
struct EmulatedChange {
  double factor = 1;
  std::size_t from = 0;
  std::size_t until = 0;

  double at(std::size_t step) const { return step >= from && step < until ? factor : 1; }
};

/// What the node is not told of how long passes take.
struct EmulatedDisturbance {
  double noise = 0;           ///< Standard deviation of a microbatch's seconds, relative.
  std::size_t slow_rank = 0;  ///< Data index, of both modules' replicas.
  EmulatedChange slow = {};   ///< Of all that slow_rank does.
  EmulatedChange encoder = {};
  EmulatedChange llm = {};
  std::uint64_t seed = 0;
};

/// The same as people write it.
struct DisturbanceText {
  double noise = 0;
  std::string slow_rank;             ///< "3:1.2@50-150"; empty: none.
  std::vector<std::string> changes;  ///< "encoder:3@100" or "llm:1.5@20-40".
};

/// Errors: kInvalidArgument naming the flag, what it is and what it must be.
Result<EmulatedDisturbance> parse_disturbance(const DisturbanceText& text, std::size_t ranks);

/// A microbatch of a replica.
struct EmulatedWork {
  bool encoder = false;
  std::size_t replica = 0;
  std::size_t step = 0;
  std::size_t microbatch = 0;
};

/// What it takes. Noise is the same for the same work and seed.
SampleCost disturbed(const EmulatedDisturbance& by, const EmulatedWork& work, SampleCost load);

}  // namespace isocost::cli
