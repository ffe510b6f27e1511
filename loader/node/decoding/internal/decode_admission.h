#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/memory_budget.h"
#include "base/result.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Admits samples to decoding by the memory that it takes. All arguments must outlive it.
/// Thread-safe.
class DecodeAdmission {
 public:
  /// `waiting_bytes` is what samples that wait may hold of the budget.
  DecodeAdmission(const Dataset& dataset, const Recipe& recipe, MemoryBudget& budget,
                  std::int64_t waiting_bytes)
      : dataset_(dataset), recipe_(recipe), budget_(budget), waiting_bytes_(waiting_bytes) {}

  /// Blocks until the memory that decoding this sample takes is granted. Errors: kCancelled, those
  /// of Recipe::working_set_bytes.
  Result<MemoryBudget::Grant> acquire(SampleId id, const std::stop_token& stop) const;

  /// Grants it to a sample that is not needed yet, if there is room. Does not block.
  std::optional<MemoryBudget::Grant> try_acquire_ahead(SampleId id) const;

 private:
  const Dataset& dataset_;
  const Recipe& recipe_;
  MemoryBudget& budget_;
  const std::int64_t waiting_bytes_;
};

}  // namespace isocost
