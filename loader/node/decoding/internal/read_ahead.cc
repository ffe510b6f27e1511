#include "loader/node/decoding/internal/read_ahead.h"

#include <algorithm>
#include <utility>

namespace isocost {
namespace {

// Limits of disks. With reads of 5 ms, the samples suffice for 12,000 samples a second of shards
// that are open; at 100 MB a second, the bytes take 0.3 s.
constexpr std::size_t kMostSamples = 64;
constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
// Limit of servers, which may take half a second to answer: enough for 4,000 samples a second.
constexpr std::size_t kMostOfServers = 2048;

}  // namespace

// Returns for disks at most a quarter as many samples as shards stay open: each may be in a shard
// of its own, and the shards in use are to stay open.
ReadAheadLimits ReadAheadLimits::of(const Dataset& dataset, std::int64_t memory) {
  if (dataset.reads_servers()) return {kMostOfServers, memory, 16};
  return {std::clamp<std::size_t>(dataset.open_shards() / 4, 1, kMostSamples), kMostBytes, 2};
}

ReadAhead::ReadAhead(const Dataset& dataset, Executor& threads, const ReadAheadLimits& limits)
    : dataset_(dataset), threads_(threads), limits_(limits) {}

std::shared_ptr<SampleRead> ReadAhead::decoding_begins(SampleId id, const Upcoming& upcoming) {
  std::shared_ptr<SampleRead> read = leave(id);
  for (int i = 0; i < limits_.at_once && asked_.size() < limits_.samples && bytes_ < limits_.bytes;
       ++i) {
    const std::optional<SampleId> next = upcoming(asked_.size());
    if (!next) break;
    ask(*next);
  }
  return read;
}

std::shared_ptr<SampleRead> ReadAhead::leave(SampleId id) {
  if (!asked_.empty() && asked_.front().id != id) {  // other samples come than were announced
    asked_.clear();
    bytes_ = 0;
  }
  if (asked_.empty()) return std::make_shared<SampleRead>(dataset_, id);
  std::shared_ptr<SampleRead> read = std::move(asked_.front().read);
  bytes_ -= asked_.front().bytes;
  asked_.pop_front();
  return read;
}

void ReadAhead::ask(SampleId id) {
  const std::int64_t bytes = dataset_.read_ahead_bytes(id);
  asked_.push_back({id, bytes, std::make_shared<SampleRead>(dataset_, id)});
  bytes_ += bytes;
  if (bytes == 0) return;
  threads_.submit([read = asked_.back().read, closing = closing_.get_token()] {
    if (!closing.stop_requested()) read->begin();
  });
}

}  // namespace isocost
