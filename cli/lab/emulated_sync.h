#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/schedule.h"
#include "base/mutex.h"
#include "base/result.h"

namespace isocost::cli {

using EmulatedTime = std::chrono::steady_clock::time_point;

/// The first failure of many threads, and the stop that it causes everywhere. Any thread.
class Fault {
 public:
  explicit Fault(const std::stop_token& outer)
      : forward_(outer, [this] { source_.request_stop(); }) {}

  void raise(Error error);
  std::stop_token token() const { return source_.get_token(); }
  std::optional<Error> error() const;

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ ISOCOST_GUARDED_BY(mutex_);
  std::stop_source source_;
  std::stop_callback<std::function<void()>> forward_;
};

/// Lets `size` threads meet again and again; the last one to come runs `at_meeting` first.
class Barrier {
 public:
  Barrier(std::size_t size, std::function<void()> at_barrier)
      : size_(size), at_barrier_(std::move(at_barrier)) {}

  /// False where a stop or the deadline came before all were there.
  bool join(const std::stop_token& stop, EmulatedTime deadline);

 private:
  std::size_t size_;
  std::function<void()> at_barrier_;
  Mutex mutex_;
  ConditionVariable met_;
  std::size_t waiting_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::uint64_t turn_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

/// Rows of an encoder's microbatch that enter one of the LLM's.
struct EmulatedFeed {
  std::uint32_t encoder_replica = 0;
  std::uint32_t slot = 0;
  std::int64_t bytes = 0;
};

/// A microbatch as a replica's first stage took it in.
struct EmulatedMicrobatch {
  SampleCost load;
  std::vector<EmulatedFeed> feeds;  ///< That an LLM's needs, by replica and slot.
};

/// What the stages of one replica tell each other and those of the other module in a step: what
/// its microbatches are, which passes ended, and when. Any thread.
class ReplicaTimeline {
 public:
  void clear();

  void set(std::uint32_t slot, EmulatedMicrobatch microbatch);
  /// Of a slot that was set in this step.
  EmulatedMicrobatch microbatch(std::uint32_t slot) const;
  /// [slots], by number.
  std::vector<EmulatedMicrobatch> microbatches() const;

  void end(std::size_t stage, std::uint32_t slot, PassKind kind, EmulatedTime when);
  /// Nothing where a stop or the deadline came first.
  std::optional<EmulatedTime> wait_for(std::size_t stage, std::uint32_t slot, PassKind kind,
                                       const std::stop_token& stop, EmulatedTime deadline);

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::tuple<std::size_t, std::uint32_t, PassKind>, EmulatedTime> ended_
      ISOCOST_GUARDED_BY(mutex_);
  std::map<std::uint32_t, EmulatedMicrobatch> microbatches_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost::cli
