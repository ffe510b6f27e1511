#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/memory_budget.h"

namespace isocost {

/// Returns a ServerOptions::reserve_block that takes what a budget has at once. The budget must
/// outlive the server.
inline std::function<std::shared_ptr<const void>(std::int64_t bytes)> reserve_from(
    MemoryBudget& budget) {
  return [&budget](std::int64_t bytes) -> std::shared_ptr<const void> {
    auto grant = budget.try_acquire(bytes);
    if (!grant) return nullptr;
    return std::make_shared<const MemoryBudget::Grant>(*std::move(grant));
  };
}

}  // namespace isocost
