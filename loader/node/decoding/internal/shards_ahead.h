#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Has shards on servers fetched whole to a cache, on threads of its own: those of the samples that
/// come next, a few at once, in the order in which they are first needed. So the shards of the next
/// window are there when it begins. One thread at a time may call it.
class ShardsAhead {
 public:
  /// `distance`: samples that are looked at ahead.
  ShardsAhead(const Dataset& dataset, std::size_t distance);
  ~ShardsAhead();
  ShardsAhead(const ShardsAhead&) = delete;
  ShardsAhead& operator=(const ShardsAhead&) = delete;

  /// See ReadAhead.
  using Upcoming = std::function<std::optional<SampleId>(std::size_t after)>;
  /// Call this when the decoding of a sample begins. Looks only at a few more samples, so it
  /// returns soon.
  void decoding_begins(SampleId id, const Upcoming& upcoming) ISOCOST_EXCLUDES(mutex_);

 private:
  void leave(SampleId id) ISOCOST_EXCLUDES(mutex_);
  void add(SampleId id) ISOCOST_EXCLUDES(mutex_);
  void run(const std::stop_token& ending) ISOCOST_EXCLUDES(mutex_);

  const Dataset& dataset_;
  const std::size_t distance_;
  std::deque<SampleId> ahead_;                  // samples that were looked at, in their order
  std::map<std::size_t, std::size_t> samples_;  // of them, by the number of their shard

  Mutex mutex_;
  ConditionVariable added_;
  std::deque<std::size_t> shards_ ISOCOST_GUARDED_BY(mutex_);  // to be fetched
  std::vector<std::jthread> threads_;
};

}  // namespace isocost
