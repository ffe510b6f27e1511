#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <tuple>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/schedule.h"
#include "base/mutex.h"
#include "cli/lab/stage_clock.h"

namespace isocost::cli {

/// Rows of an encoder's microbatch that enter one of the LLM's.
struct EmulatedFeed {
  std::uint32_t encoder_replica = 0;
  std::uint32_t slot = 0;
  std::int64_t bytes = 0;
};

/// A microbatch as the first stage of a replica received it.
struct EmulatedMicrobatch {
  SampleCost load;
  std::vector<EmulatedFeed> feeds;  ///< Feeds that an LLM's microbatch needs, by replica and slot.
  bool measured = true;             ///< Whether the node asks for the seconds of its step.
};

/// State that the stages of one replica share with each other and with those of the other module,
/// in a step: its microbatches, and when each pass ended. Thread-safe.
class ReplicaTimeline {
 public:
  void clear() ISOCOST_EXCLUDES(mutex_);

  void set(std::uint32_t slot, EmulatedMicrobatch microbatch) ISOCOST_EXCLUDES(mutex_);
  /// Returns a slot's microbatch, which must have been set in this step.
  EmulatedMicrobatch microbatch(std::uint32_t slot) const ISOCOST_EXCLUDES(mutex_);
  /// Returns the microbatches of this step, in the order of their slots.
  std::vector<EmulatedMicrobatch> microbatches() const ISOCOST_EXCLUDES(mutex_);

  void end(std::size_t stage, std::uint32_t slot, PassKind kind, EmulatedTime when)
      ISOCOST_EXCLUDES(mutex_);
  /// Blocks until the pass has ended. Returns when it ended; nothing if a stop or the deadline came
  /// first.
  std::optional<EmulatedTime> wait_for(std::size_t stage, std::uint32_t slot, PassKind kind,
                                       const std::stop_token& stop, EmulatedTime deadline)
      ISOCOST_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::tuple<std::size_t, std::uint32_t, PassKind>, EmulatedTime> ended_
      ISOCOST_GUARDED_BY(mutex_);
  std::map<std::uint32_t, EmulatedMicrobatch> microbatches_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost::cli
