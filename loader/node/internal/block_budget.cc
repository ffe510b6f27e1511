#include "loader/node/internal/block_budget.h"

#include <optional>

namespace isocost {
namespace {

struct Reservation {
  std::shared_ptr<MemoryBudget> waiting_budget;  // declared first: its grant is returned to it
  MemoryBudget::Grant waiting;
  MemoryBudget::Grant granted;
};

}  // namespace

std::shared_ptr<const void> BlockBudget::reserve(std::int64_t bytes) {
  const MutexLock lock(mutex_);
  if (wanted_ != nullptr && wanted_->request.bytes() < bytes) wanted_ = nullptr;
  if (wanted_ == nullptr) {
    auto waiting = waiting_->try_acquire(bytes);
    if (!waiting) return nullptr;
    wanted_ = std::make_unique<Wanted>(*std::move(waiting), budget_);
  }
  auto granted = wanted_->request.take();
  if (!granted) return nullptr;
  const std::unique_ptr<Wanted> wanted = std::move(wanted_);
  granted->shrink(bytes);
  wanted->waiting.shrink(bytes);
  return std::make_shared<const Reservation>(
      Reservation{waiting_, std::move(wanted->waiting), *std::move(granted)});
}

void BlockBudget::give_up() {
  const MutexLock lock(mutex_);
  wanted_ = nullptr;
}

}  // namespace isocost
