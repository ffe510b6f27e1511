#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "loader/node/internal/online_model.h"
#include "transport/zmq/server.h"

namespace isocost {

/// Makes a trainer measure a new model profile after model drift: asks once for each drift, and
/// adopts the profile that the trainer sends. `receive` may be called from any thread; the other
/// functions belong to the planning thread.
class Reprofiling {
 public:
  /// `model` must outlive it. With `allowed` false it never asks.
  Reprofiling(bool allowed, OnlineModel& model, LogSink sink)
      : allowed_(allowed), model_(model), log_(std::move(sink)) {}

  /// Stores a profile until `adopt_received`.
  void receive(ProfileReceived received) ISOCOST_EXCLUDES(mutex_);
  /// Adopts the received profile. A profile that was not asked for, or that cannot be read, is
  /// logged and ignored.
  void adopt_received() ISOCOST_EXCLUDES(mutex_);
  /// Returns whether the step that has just been planned asks its first rank for a profile.
  bool should_ask();

 private:
  const bool allowed_;
  OnlineModel& model_;
  const LogSink log_;
  std::uint64_t drifts_asked_ = 0;       // number of the last drift for which a profile was asked
  std::uint32_t steps_since_asked_ = 0;  // 0: no answer is expected
  Mutex mutex_;
  std::optional<ProfileReceived> received_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
