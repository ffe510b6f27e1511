#pragma once

#include <cstdint>
#include <string>

namespace isocost {

/// A shard that is damaged or lost: see ShardCondition.
struct BrokenShard {
  std::string name;
  bool lost = false;
  std::string reason;
  std::uint64_t samples = 0;             ///< Samples that are left, good and bad.
  std::uint64_t samples_when_whole = 0;  ///< 0: it was never seen whole.
};

/// Returns "name: damaged: reason; 40 of its 100 samples are left", for messages.
std::string describe(const BrokenShard& shard);

}  // namespace isocost
