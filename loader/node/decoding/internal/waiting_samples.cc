#include "loader/node/decoding/internal/waiting_samples.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace isocost {

struct WaitingSamples::Counts {
  explicit Counts(std::int64_t limit) : budget(limit) {}
  MemoryBudget budget;
  std::atomic<std::int64_t> bytes = 0;
  std::atomic<std::int64_t> samples = 0;
};

WaitingSamples::WaitingSamples(std::int64_t limit) : counts_(std::make_shared<Counts>(limit)) {}

std::shared_ptr<const DecodedSample> WaitingSamples::keep_if_room(
    std::shared_ptr<const DecodedSample> decoded) {
  const std::int64_t bytes = decoded->grant.bytes();
  auto granted = counts_->budget.try_acquire(bytes);
  if (!granted) return nullptr;
  auto held = std::make_shared<MemoryBudget::Grant>(*std::move(granted));
  counts_->bytes += bytes;
  counts_->samples += 1;
  const DecodedSample* sample = decoded.get();
  return {sample, [decoded = std::move(decoded), held = std::move(held), counts = counts_,
                   bytes](const DecodedSample*) mutable {
            decoded.reset();
            held.reset();
            counts->bytes -= bytes;
            counts->samples -= 1;
          }};
}

std::shared_ptr<MemoryBudget> WaitingSamples::budget() const { return {counts_, &counts_->budget}; }
std::int64_t WaitingSamples::bytes() const { return counts_->bytes; }
std::int64_t WaitingSamples::samples() const { return counts_->samples; }

}  // namespace isocost
