#include "loader/node/decoding/internal/shards_ahead.h"

#include "base/thread_name.h"

namespace isocost {
namespace {

constexpr int kMostAtOnce = 64;
// Shards that are fetched at once. A server that stalls in one, or small shards, leave the others.
constexpr std::size_t kThreads = 8;

}  // namespace

ShardsAhead::ShardsAhead(const Dataset& dataset, std::size_t distance)
    : dataset_(dataset), distance_(distance), threads_(kThreads) {
  for (std::jthread& thread : threads_) {
    thread = std::jthread([this](const std::stop_token& ending) { run(ending); });
  }
}

ShardsAhead::~ShardsAhead() {
  for (std::jthread& thread : threads_) thread.request_stop();  // before one is waited for
}

void ShardsAhead::decoding_begins(SampleId id, const Upcoming& upcoming) {
  leave(id);
  for (int i = 0; i < kMostAtOnce && ahead_.size() < distance_; ++i) {
    const std::optional<SampleId> next = upcoming(ahead_.size());
    if (!next) return;
    add(*next);
  }
}

void ShardsAhead::leave(SampleId id) {
  if (!ahead_.empty() && ahead_.front() != id) {  // other samples come than were announced
    ahead_.clear();
    samples_.clear();
    const MutexLock lock(mutex_);
    shards_.clear();
  }
  if (ahead_.empty()) return;
  ahead_.pop_front();
  const auto shard = samples_.find(dataset_.shard_number(id));
  if (shard != samples_.end() && --shard->second == 0) samples_.erase(shard);
}

void ShardsAhead::add(SampleId id) {
  ahead_.push_back(id);
  const std::size_t shard = dataset_.shard_number(id);
  if (++samples_[shard] > 1 || !dataset_.is_on_server(id)) return;
  const MutexLock lock(mutex_);
  shards_.push_back(shard);
  added_.notify_one();
}

void ShardsAhead::run(const std::stop_token& ending) {
  name_thread("isocost-shards");
  while (!ending.stop_requested()) {
    std::size_t shard = 0;
    {
      const MutexLock lock(mutex_);
      const auto is_there = [this]() ISOCOST_REQUIRES(mutex_) { return !shards_.empty(); };
      if (!added_.wait(mutex_, ending, is_there)) return;
      shard = shards_.front();
      shards_.pop_front();
    }
    dataset_.hold_shard(shard, ending);
  }
}

}  // namespace isocost
