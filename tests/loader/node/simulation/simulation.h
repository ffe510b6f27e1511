#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/loader/node/simulation/dice.h"
#include "tests/loader/node/simulation/network.h"
#include "tests/loader/node/simulation/node_process.h"
#include "tests/loader/node/simulation/rank_process.h"
#include "tests/loader/node/simulation/training_data.h"

namespace isocost {

/// How often a simulation has met what it is for, by name.
using SimulationCounts = std::map<std::string, std::uint64_t>;

/// Trainers that an operator starts, kills and starts again, and their node. A seed decides
/// everything. After a number of turns faults stop, and all must end within a bounded time. Checks
/// while it runs:
/// - A process takes the microbatches and ends that follow what its rank had acknowledged when the
///   process first joined, each once and in order.
/// - What is acknowledged was trained by the process that says so.
/// - A client gets a rank only from one that is gone, or silent for the heartbeat time-out.
/// - A rank's acknowledgements that were not lost count before its next client is let in.
/// - No job begins once every rank has acknowledged everything.
/// The first violation ends it.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  ~Simulation();

  /// Plays to the end. Returns what is wrong, with what happened last; empty: nothing is.
  std::string play();
  const SimulationCounts& counts() const { return counts_; }

 private:
  struct Member;  // a process, and what is expected of it
  struct Job;

  void take_turn();
  void take_turn_of(Member& member);
  bool waits_for_others(const RankProcess& process) const;
  void pass_time();
  void act_as_operator();
  void act_as_adversary();
  void start_run(const std::optional<StartPoint>& start);
  Member& start_process(std::int32_t rank, const std::optional<StartPoint>& start);
  void restart_all();
  void end_process(Member& member);
  void come_late();
  std::optional<StartPoint> last_saved() const;
  void check_taken(Member& member);
  void joined(const std::string& address, const ClientJoined& joined, const JobTerms& terms);
  void acknowledged(const Acknowledged& acknowledged, std::uint64_t job);
  void begun(const JobTerms& terms, bool all_done);
  void check_predecessor(const Member& before, const Member& member, const JobTerms& terms);
  void note_end();
  void violate(const std::string& what);
  void note(const std::string& event);
  void check_missing(std::int32_t rank);
  bool is_over() const;
  bool is_run_done() const;
  bool sound() const { return turn_ >= kFaultyTurns; }

  static constexpr int kFaultyTurns = 1200;
  static constexpr int kMostTurns = 40'000;

  Dice dice_;
  const TrainingData data_;
  Network network_{dice_};
  const std::int32_t ranks_;
  const bool synchronous_;  // whether ranks train one model, and are started again together
  NodeProcess node_;
  MonotonicTime now_;
  MonotonicTime next_tick_;
  int turn_ = 0;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::size_t> run_;          // members of the present run, by rank
  std::optional<StartPoint> run_start_;   // that its processes ask for
  std::optional<MonotonicTime> restart_;  // when the operator starts all again
  std::map<std::int32_t, MonotonicTime> replace_;
  std::map<std::uint64_t, Job> jobs_;
  std::map<std::int32_t, std::size_t> holders_;
  std::map<std::int32_t, MonotonicTime> harmed_;  // when a rank's process last died or stood still
  std::optional<std::size_t> late_;
  bool came_late_ = false;
  std::optional<MonotonicTime> finished_;  // when the node was
  std::vector<std::size_t> to_be_told_;    // processes that get the last end from it
  int restarts_left_ = 0;                  // of the sound part
  std::deque<std::string> events_;         // the last ones
  std::string violation_;
  SimulationCounts counts_;
};

}  // namespace isocost
