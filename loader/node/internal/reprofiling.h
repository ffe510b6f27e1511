#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/internal/reprofile_budget.h"
#include "loader/plan/served_layout.h"
#include "transport/protocol/client_events.h"

namespace isocost {

/// Makes trainers measure again after model drift. It asks all receivers at the same step, since
/// layers may need the ranks of others for their collectives. In a layout with several stages all
/// of them answer with the layers of their stage, which are joined. Otherwise rank 0 answers with a
/// model profile. The answers are adopted as a whole, or not at all and with a warning that names
/// the reason. `receive` and `counts` may be called from any thread; the other functions belong to
/// the planning thread.
class Reprofiling {
 public:
  struct Options {
    bool allowed = false;  ///< If false, it never asks, and says once how to allow it.
    double budget_share = 0.005;
    const ServedLayout* layout = nullptr;
    MonotonicClock clock = steady_clock();
  };
  /// `model` and the layout must outlive it.
  Reprofiling(Options options, OnlineModel& model, LogSink sink)
      : options_(std::move(options)),
        budget_(options_.budget_share),
        model_(model),
        log_(std::move(sink)) {}

  /// Stores an answer until `adopt_received`.
  void receive(ProfileReceived received) ISOCOST_EXCLUDES(mutex_);
  /// Adopts the profile once all answers are there, or gives up. An answer that was not asked for
  /// is logged and ignored.
  void adopt_received() ISOCOST_EXCLUDES(mutex_);
  /// Begins another job, whose trainers were asked for nothing: they are asked anew.
  void begin_job();

  struct Counts {
    std::uint32_t kept = 0;  ///< Times that trainers were asked and the present profile was kept.
    double seconds = 0;      ///< Seconds that measuring took.
  };
  Counts counts() const ISOCOST_EXCLUDES(mutex_);
  /// Returns the seconds that receivers may take if a step that has just been planned asks them to
  /// measure; 0 if it does not ask. `step` is the position of its first microbatch.
  double ask(const Position& step);

 private:
  using Answers = std::map<std::int32_t, ProfileUpdate>;

  bool has_stages() const { return options_.layout != nullptr && options_.layout->pipelined(); }
  double trained_s();
  std::string name_of(std::int32_t rank) const;
  void take(std::int32_t rank, ProfileUpdate update);
  void decide();
  void give_up(const std::string& why);
  Status adopt();
  Status check_answers() const;
  Result<CostProfile> joined() const;
  void compare_training(const CostProfile& profile) const;
  bool within_budget();
  void spend(double seconds, bool complete);

  const Options options_;
  ReprofileBudget budget_;
  OnlineModel& model_;
  const LogSink log_;
  std::optional<MonotonicTime> started_;
  std::uint64_t drifts_asked_ = 0;       // number of the last drift for which trainers were asked
  bool ask_again_ = false;               // for the same drift, as the budget was exceeded
  bool wait_noted_ = false;              // that a drift waits for the budget
  Position asked_at_;                    // the step that asked
  std::uint32_t steps_since_asked_ = 0;  // 0: no answer is expected
  double asked_at_s_ = 0;                // seconds of training before the last question
  double granted_s_ = 0;                 // by the last question
  std::set<std::int32_t> asked_;         // ranks whose answers are expected
  Answers answers_;
  mutable Mutex mutex_;
  Counts counts_ ISOCOST_GUARDED_BY(mutex_);
  Answers received_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
