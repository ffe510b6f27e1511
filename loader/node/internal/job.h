#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "loader/node/internal/delivery_queue.h"
#include "loader/node/internal/job_order.h"
#include "transport/protocol/client_events.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A training job: a number of ranks that train from a starting point on. A node serves one job at
/// a time. The next job begins after all clients of this one have left and new clients ask for
/// another start or number of ranks, as after a restart from a checkpoint. Single-thread.
class Job {
 public:
  /// `order`: the samples of its steps, for those who plan them. `cost_model_state`: see JobTerms.
  Job(std::uint64_t id, std::int32_t ranks, const StartPoint& start, MonotonicTime now,
      std::shared_ptr<const JobOrder> order = nullptr,
      std::shared_ptr<const std::string> cost_model_state = nullptr);
  /// Returns the job that continues after a run that ended inside a step: from that step's first
  /// microbatch, with as many ranks.
  Job repeat_step(MonotonicTime now) const;

  std::uint64_t id() const { return id_; }
  std::int32_t ranks() const { return ranks_; }
  const StartPoint& start() const { return start_; }
  /// Returns the start that a client asked for, or the data's first step: `start`, unless this job
  /// repeats a step.
  const StartPoint& asked_start() const { return asked_start_; }

  const std::shared_ptr<const JobOrder>& order() const { return order_; }
  const std::shared_ptr<const std::string>& cost_model_state() const { return cost_model_state_; }

  DeliveryQueue& queue() { return queue_; }
  const DeliveryQueue& queue() const { return queue_; }

  /// Gives a rank to a client. This function and `leave` ignore ranks that the job does not have.
  void join(const ClientJoined& joined);
  /// Takes the rank from its client. `lost`: the client did not say that it leaves.
  void leave(std::int32_t rank, bool lost, MonotonicTime now);

  /// Counts the rank's absence, if its client is gone, from now on.
  void hear(std::int32_t rank, MonotonicTime now);

  /// Returns the session of the rank's present or last client; 0 if it never had one.
  std::uint64_t session(std::int32_t rank) const { return at(rank).session; }
  bool joined_before(std::int32_t rank) const { return at(rank).joined_before; }
  /// Returns when the rank's last client left or was heard, or when the job began, whichever is
  /// latest.
  MonotonicTime absent_since(std::int32_t rank) const { return at(rank).absent_since; }
  /// Returns whether every rank has had a client. A client that left before it joined counts, too.
  bool all_joined() const;
  bool all_left() const;
  /// Returns whether a rank's client left before the rank had trained on everything, and no other
  /// has taken its place.
  bool any_gave_up() const;
  /// Returns whether a rank's client is lost, and no other has taken its place.
  bool any_lost() const;

  /// Returns when a client first asked for another job while this one still had clients; `now` on
  /// the first call.
  MonotonicTime disputed_since(MonotonicTime now);

 private:
  // Whether a rank has a client stands in the queue.
  struct Rank {
    bool joined_before = false;
    bool lost = false;
    std::uint64_t session = 0;
    MonotonicTime absent_since;
  };
  const Rank& at(std::int32_t rank) const {
    return ranks_state_.at(static_cast<std::size_t>(rank));
  }
  Rank& at(std::int32_t rank) { return ranks_state_.at(static_cast<std::size_t>(rank)); }

  std::uint64_t id_;
  std::int32_t ranks_;
  StartPoint start_;
  StartPoint asked_start_;
  std::shared_ptr<const JobOrder> order_;
  std::shared_ptr<const std::string> cost_model_state_;
  DeliveryQueue queue_;
  std::vector<Rank> ranks_state_;
  std::optional<MonotonicTime> disputed_since_;
};

}  // namespace isocost
