#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "loader/node/internal/online_model.h"
#include "transport/server.h"

namespace isocost {

/// Has the profile measured again where correction finds the model changed: asks once a drift, and
/// goes on from what a trainer sends. `offer` from any thread, the rest from the planning one.
class Reprofiling {
 public:
  /// `model` must outlive it.
  Reprofiling(bool allowed, OnlineModel& model, LogSink sink)
      : allowed_(allowed), model_(model), log_(std::move(sink)) {}

  void offer(ProfileReceived came);
  /// Adopts what was offered. A profile that nobody asked for, or that cannot be read, is named in
  /// the log.
  void take_offered();
  /// Whether the step that has just been planned is to ask for a profile.
  bool ask();

 private:
  const bool allowed_;
  OnlineModel& model_;
  const LogSink log_;
  std::uint64_t drifts_ = 0;     // up to which was asked
  std::uint32_t asked_ago_ = 0;  // steps; 0: no answer is awaited
  Mutex mutex_;                  // guards offered_
  std::optional<ProfileReceived> offered_;
};

}  // namespace isocost
