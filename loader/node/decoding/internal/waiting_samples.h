#pragma once

#include <cstdint>
#include <memory>

#include "base/memory_budget.h"
#include "loader/node/decoding/step_sample.h"

namespace isocost {

/// Decoded samples that are kept until they are sent, within a budget of their own. They may
/// outlive this object. Thread-safe.
class WaitingSamples {
 public:
  explicit WaitingSamples(std::int64_t limit);

  /// Returns the sample, which counts until its last reference is gone; null if there is no room
  /// for it.
  std::shared_ptr<const DecodedSample> keep_if_room(std::shared_ptr<const DecodedSample> decoded);

  /// Returns the budget, also for what waits elsewhere.
  std::shared_ptr<MemoryBudget> budget() const;

  std::int64_t bytes() const;
  std::int64_t samples() const;

 private:
  struct Counts;
  std::shared_ptr<Counts> counts_;
};

}  // namespace isocost
