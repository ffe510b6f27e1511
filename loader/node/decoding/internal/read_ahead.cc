#include "loader/node/decoding/internal/read_ahead.h"

#include <algorithm>
#include <utility>

namespace isocost {
namespace {

// Limits of disks. With reads of 5 ms, the samples suffice for 12,000 samples a second of shards
// that are open; at 100 MB a second, the bytes take 0.3 s.
constexpr std::size_t kMostOnDisk = 64;
constexpr std::int64_t kMostBytesOnDisk = std::int64_t{32} << 20;
constexpr int kDiskAtOnce = 2;
// Limits of servers, which may take half a second to answer: enough for 4,000 samples a second.
constexpr std::size_t kMostOnServers = 2048;
constexpr int kServersAtOnce = 16;

}  // namespace

// Asks disks for at most a quarter as many samples as shards stay open: each may be in a shard of
// its own, and the shards in use are to stay open.
ReadAhead::ReadAhead(const Dataset& dataset, Executor& threads, std::int64_t memory,
                     std::size_t window_samples)
    : dataset_(dataset),
      threads_(threads),
      most_on_disk_(std::clamp<std::size_t>(dataset.open_shards() / 4, 1, kMostOnDisk)),
      memory_(memory) {
  if (window_samples > 0) shards_ahead_.emplace(dataset, window_samples);
}

std::shared_ptr<SampleRead> ReadAhead::decoding_begins(SampleId id, const Upcoming& upcoming) {
  if (shards_ahead_) shards_ahead_->decoding_begins(id, upcoming);
  std::shared_ptr<SampleRead> read = leave(id);
  const int at_once = dataset_.reads_servers() ? kServersAtOnce : kDiskAtOnce;
  for (int i = 0; i < at_once && has_room(); ++i) {
    const std::optional<SampleId> next = upcoming(asked_.size());
    if (!next) break;
    ask(*next);
  }
  return read;
}

std::shared_ptr<SampleRead> ReadAhead::leave(SampleId id) {
  if (!asked_.empty() && asked_.front().id != id) {  // other samples come than were announced
    asked_.clear();
    within_reach_ = 0;
    disk_bytes_ = 0;
  }
  if (asked_.empty()) return read_of(id, ahead_bytes_);
  std::shared_ptr<SampleRead> read = std::move(asked_.front().read);
  disk_bytes_ -= asked_.front().disk_bytes;
  asked_.pop_front();
  if (within_reach_ > 0) --within_reach_;
  ask_disk_within_reach();
  return read;
}

// Returns whether a further sample may be asked for.
bool ReadAhead::has_room() const {
  if (!dataset_.reads_servers()) {
    return asked_.size() < most_on_disk_ && disk_bytes_ < kMostBytesOnDisk;
  }
  return asked_.size() < kMostOnServers && *ahead_bytes_ < memory_ / 2;
}

void ReadAhead::ask(SampleId id) {
  asked_.push_back({.id = id, .disk_bytes = 0, .read = read_of(id, ahead_bytes_)});
  if (const auto read = asked_.back().read) submit(read);
  ask_disk_within_reach();
}

void ReadAhead::submit(const std::shared_ptr<SampleRead>& read) const {
  threads_.submit([read, closing = closing_.get_token()] {
    if (!closing.stop_requested()) read->begin();
  });
}

bool ReadAhead::keep_if_room(SampleRead& read) const {
  const std::int64_t bytes = again_bytes_->fetch_add(read.counted()) + read.counted();
  const bool has_room = bytes <= memory_ / 4;
  if (has_room) {
    read.was_counted_in(again_bytes_);
  } else {
    *again_bytes_ -= read.counted();
  }
  return has_room;
}

std::shared_ptr<SampleRead> ReadAhead::read_again(SampleId id) const {
  if (*again_bytes_ >= memory_ / 2) return nullptr;
  auto read = read_of(id, again_bytes_);
  if (read) submit(read);
  return read;
}

// Asks the disks of the samples that come soon. Those of a mixture may stand far behind, between
// samples on servers.
void ReadAhead::ask_disk_within_reach() {
  for (; within_reach_ < std::min(asked_.size(), most_on_disk_); ++within_reach_) {
    Asked& asked = asked_[within_reach_];
    if (asked.read) continue;
    asked.disk_bytes = dataset_.read_ahead_bytes(asked.id);
    disk_bytes_ += asked.disk_bytes;
    if (asked.disk_bytes == 0) continue;
    threads_.submit([&dataset = dataset_, closing = closing_.get_token(), id = asked.id] {
      if (!closing.stop_requested()) static_cast<void>(dataset.read_ahead(id, {}));
    });
  }
}

// Returns the read of a sample on a server; null for one on a disk, and for one of a compressed
// shard, which is inflated to a disk.
std::shared_ptr<SampleRead> ReadAhead::read_of(SampleId id, const Total& total) const {
  if (!dataset_.is_on_server(id)) return nullptr;
  const std::int64_t bytes = dataset_.read_ahead_bytes(id);
  return bytes > 0 ? std::make_shared<SampleRead>(dataset_, id, bytes, total) : nullptr;
}

}  // namespace isocost
