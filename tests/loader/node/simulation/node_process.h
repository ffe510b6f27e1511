#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "loader/node/internal/served_jobs.h"
#include "loader/node/node_options.h"
#include "tests/loader/node/simulation/dice.h"
#include "tests/loader/node/simulation/network.h"
#include "tests/loader/node/simulation/training_data.h"
#include "transport/protocol/coordinator.h"

namespace isocost {

/// A node's process: the machines of coordinator and home, between which planning and delivery go
/// on. Its turns are what its threads do, in any order.
class NodeProcess {
 public:
  static constexpr std::chrono::milliseconds kHeartbeat{1000};
  static constexpr std::chrono::milliseconds kHeartbeatTimeout{5000};

  /// `ranks`: number of the ranks that the node is told; 0: the first client says it.
  NodeProcess(const TrainingData& data, std::int64_t ranks, Network& network, Dice& dice);

  // Turns.
  void receive(MonotonicTime now);
  void plan();
  /// `may_end`: whether it notices that every rank is done with everything.
  void deliver(MonotonicTime now, bool may_end);
  void send_queued();
  void tick(MonotonicTime now);
  void drain() { jobs_.drain(); }

  /// Told of what it does, for checks.
  struct Observer {
    std::function<void(const std::string& address, const ClientJoined& joined, const JobTerms& job)>
        joined;
    std::function<void(const Acknowledged& acknowledged, std::uint64_t job)> acknowledged;
    std::function<void(const JobTerms& job, bool all_done)> begun;  ///< With the job before.
  };
  Observer observer;

  /// Returns whether every rank has acknowledged everything, as the delivering thread has seen.
  bool is_finished() const { return finished_; }
  /// Returns whether every rank has acknowledged everything, as the queue says.
  bool all_done();
  /// Returns the rank for whose absence the node has failed; nothing if it has not.
  std::optional<std::int32_t> missing() const { return missing_; }
  /// Returns the present job; null: there is none.
  std::optional<JobTerms> job() const;
  bool holds(std::int32_t rank, const std::string& address) const;

  static constexpr std::size_t kPlanAhead = 2;

 private:
  void answer(const std::string& address, const Hello& hello, MonotonicTime now);
  tl::expected<Welcome, Refusal> decide(const JoinRequest& request, MonotonicTime now);
  void close(const std::string& address, MonotonicTime now);
  void perform(MonotonicTime now);
  void perform(const ClientEvent& event, MonotonicTime now);
  void tell_blocked_ranks(MonotonicTime now);

  const TrainingData& data_;
  Network& network_;
  Dice& dice_;
  NodeOptions options_;
  ServedJobs jobs_;
  Coordinator coordinator_;
  CoordinatorActions actions_;
  std::string joining_;            // address of the hello that is answered
  std::uint64_t planned_job_ = 0;  // the planning thread's
  std::vector<Item> to_plan_;      // first items of what it plans, in order
  std::size_t next_to_plan_ = 0;
  std::uint64_t delivered_job_ = 0;            // the delivering thread's
  std::deque<ServedJobs::Outgoing> outgoing_;  // for the socket's thread
  std::set<std::uint64_t> told_;               // sessions that were told of a blocked rank
  std::optional<std::int32_t> missing_;
  bool finished_ = false;
};

}  // namespace isocost
