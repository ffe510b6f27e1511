#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "loader/dataset/dataset.h"

namespace isocost {

/// The reading of a sample's bytes before it is decoded. Internally synchronised but for its total.
class SampleRead {
 public:
  /// `dataset` must outlive it. `total` has `bytes` more as long as this object lives.
  SampleRead(const Dataset& dataset, SampleId id, std::int64_t bytes,
             std::shared_ptr<std::atomic<std::int64_t>> total)
      : dataset_(dataset), id_(id), counted_(bytes), total_(std::move(total)) {
    *total_ += counted_;
  }
  SampleRead(const SampleRead&) = delete;
  SampleRead& operator=(const SampleRead&) = delete;
  ~SampleRead() {
    stop_.request_stop();
    *total_ -= counted_;
  }

  /// Begins to read, unless it has begun, and returns what Dataset::read_ahead has returned. Blocks
  /// while the shard is opened.
  const BytesAhead& begin() {
    std::call_once(begun_, [this] { bytes_ = dataset_.read_ahead(id_, stop_.get_token()); });
    return bytes_;
  }
  /// Leaves the total for another one, in which its bytes were counted. One thread at a time.
  void was_counted_in(std::shared_ptr<std::atomic<std::int64_t>> total) {
    *total_ -= counted_;
    total_ = std::move(total);
  }
  std::int64_t counted() const { return counted_; }
  /// Ends what is under way; whoever waits for its bytes gets kCancelled.
  void stop() { stop_.request_stop(); }

 private:
  const Dataset& dataset_;
  const SampleId id_;
  const std::int64_t counted_;
  std::shared_ptr<std::atomic<std::int64_t>> total_;
  std::stop_source stop_;
  std::once_flag begun_;
  BytesAhead bytes_;
};

}  // namespace isocost
