#include "cli/lab/replica_timeline.h"

#include <utility>

namespace isocost::cli {

void ReplicaTimeline::clear() {
  const MutexLock lock(mutex_);
  ended_.clear();
  microbatches_.clear();
}

void ReplicaTimeline::set(std::uint32_t slot, EmulatedMicrobatch microbatch) {
  const MutexLock lock(mutex_);
  microbatches_[slot] = std::move(microbatch);
}

EmulatedMicrobatch ReplicaTimeline::microbatch(std::uint32_t slot) const {
  const MutexLock lock(mutex_);
  return microbatches_.at(slot);
}

std::vector<EmulatedMicrobatch> ReplicaTimeline::microbatches() const {
  const MutexLock lock(mutex_);
  std::vector<EmulatedMicrobatch> all;
  all.reserve(microbatches_.size());
  for (const auto& [slot, microbatch] : microbatches_) all.push_back(microbatch);
  return all;
}

void ReplicaTimeline::end(std::size_t stage, std::uint32_t slot, PassKind kind, EmulatedTime when) {
  {
    const MutexLock lock(mutex_);
    ended_[{stage, slot, kind}] = when;
  }
  changed_.notify_all();
}

std::optional<EmulatedTime> ReplicaTimeline::wait_for(std::size_t stage, std::uint32_t slot,
                                                      PassKind kind, const std::stop_token& stop,
                                                      EmulatedTime deadline) {
  const MutexLock lock(mutex_);
  const std::tuple key(stage, slot, kind);
  const bool ended = changed_.wait_until(
      mutex_, stop, deadline, [&]() ISOCOST_REQUIRES(mutex_) { return ended_.contains(key); });
  if (!ended) return {};
  return ended_.at(key);
}

}  // namespace isocost::cli
