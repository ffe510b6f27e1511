#pragma once

#include <mutex>
#include <stop_token>

#include "loader/dataset/dataset.h"

namespace isocost {

/// The reading of a sample's bytes before it is decoded. Internally synchronised.
class SampleRead {
 public:
  /// `dataset` must outlive it.
  SampleRead(const Dataset& dataset, SampleId id) : dataset_(dataset), id_(id) {}
  SampleRead(const SampleRead&) = delete;
  SampleRead& operator=(const SampleRead&) = delete;
  ~SampleRead() { stop_.request_stop(); }

  /// Begins to read, unless it has begun, and returns what Dataset::read_ahead has returned. Blocks
  /// while the shard is opened.
  const BytesAhead& begin() {
    std::call_once(begun_, [this] { bytes_ = dataset_.read_ahead(id_, stop_.get_token()); });
    return bytes_;
  }
  /// Ends what is under way; whoever waits for its bytes gets kCancelled.
  void stop() { stop_.request_stop(); }

 private:
  const Dataset& dataset_;
  const SampleId id_;
  std::stop_source stop_;
  std::once_flag begun_;
  BytesAhead bytes_;
};

}  // namespace isocost
