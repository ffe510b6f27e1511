#include "loader/node/decoding/internal/read_ahead.h"

#include <algorithm>

namespace isocost {
namespace {

// Limits of what is read ahead. With reads of 5 ms, the samples suffice for 12,000 samples a second
// of shards that are open; at 100 MB a second, the bytes take 0.3 s.
constexpr std::size_t kMostSamples = 64;
constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
constexpr int kMostAtOnce = 2;

}  // namespace

// Reads ahead at most a quarter as many samples as shards stay open: each may be in a shard of its
// own, and the shards in use are to stay open.
ReadAhead::ReadAhead(const Dataset& dataset, Executor& threads)
    : dataset_(dataset),
      threads_(threads),
      most_samples_(std::clamp<std::size_t>(dataset.open_shards() / 4, 1, kMostSamples)) {}

void ReadAhead::decoding_begins(SampleId id, const Upcoming& upcoming) {
  leave(id);
  for (int i = 0; i < kMostAtOnce && asked_.size() < most_samples_ && bytes_ < kMostBytes; ++i) {
    const std::optional<SampleId> next = upcoming(asked_.size());
    if (!next) return;
    ask(*next);
  }
}

void ReadAhead::leave(SampleId id) {
  if (!asked_.empty() && asked_.front().id != id) {  // other samples come than were announced
    asked_.clear();
    bytes_ = 0;
  }
  if (asked_.empty()) return;
  bytes_ -= asked_.front().bytes;
  asked_.pop_front();
}

void ReadAhead::ask(SampleId id) {
  const std::int64_t bytes = dataset_.read_ahead_bytes(id);
  asked_.push_back({id, bytes});
  bytes_ += bytes;
  if (bytes == 0) return;
  threads_.submit([&dataset = dataset_, closing = closing_.get_token(), id] {
    if (!closing.stop_requested()) dataset.read_ahead(id);
  });
}

}  // namespace isocost
