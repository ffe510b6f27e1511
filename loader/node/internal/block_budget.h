#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/memory_budget.h"
#include "base/mutex.h"

namespace isocost {

/// Memory for blocks of shared memory, in which trainers may hold microbatches for any time. It
/// counts in the node's budget, and within the half of it that decoded samples may hold while they
/// wait: the other half stays free for decoding, whatever trainers do.
/// Internally synchronised.
class BlockBudget {
 public:
  /// `budget` must outlive what `reserve` returns.
  BlockBudget(std::shared_ptr<MemoryBudget> waiting, MemoryBudget& budget)
      : waiting_(std::move(waiting)), budget_(budget) {}

  /// Reserves `bytes`. Returns an object that holds them until it is dropped, or null if there is
  /// no memory now. Never blocks. If decoding has the whole budget, the request waits in the
  /// budget's queue for a later call.
  std::shared_ptr<const void> reserve(std::int64_t bytes) ISOCOST_EXCLUDES(mutex_);
  /// Withdraws the request that waits for a later call.
  void give_up() ISOCOST_EXCLUDES(mutex_);

 private:
  struct Wanted {
    Wanted(MemoryBudget::Grant of_waiting, MemoryBudget& budget)
        : waiting(std::move(of_waiting)), request(budget, waiting.bytes()) {}
    MemoryBudget::Grant waiting;
    MemoryBudget::Request request;
  };

  const std::shared_ptr<MemoryBudget> waiting_;
  MemoryBudget& budget_;
  Mutex mutex_;
  std::unique_ptr<Wanted> wanted_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
