#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/internal/sealed_step.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Steps and samples that ranks have acknowledged.
struct DeliveryCounts {
  std::uint64_t steps = 0;    ///< Acknowledged by every rank.
  std::uint64_t samples = 0;  ///< See StepPlan::samples_counted.
};

/// Ranks that have not acknowledged everything, by whether they have a client now.
struct UnfinishedRanks {
  std::vector<std::int32_t> present;
  std::vector<std::int32_t> absent;
};

/// Decides which microbatch goes to which rank next. Steps enter in order. Each rank receives its
/// microbatches in order, as many as its credit allows. A step is held until every rank has
/// acknowledged it, so that what was not acknowledged can be delivered again. Ranks are the
/// receivers of a plan. A pure state machine without socket, clock or lock. With R ranks, a message
/// or a microbatch takes O(log R), and a step O(R). An acknowledgement also looks at the rank's
/// microbatches of the steps that are held. Single-thread.
class DeliveryQueue {
 public:
  /// Finished steps that are still held for reports: reports on them are accepted after every rank
  /// has acknowledged them.
  static constexpr std::size_t kReportSteps = 4;

  /// `start`: the position of the first step that will be pushed.
  explicit DeliveryQueue(std::int32_t ranks, Position start = {});

  void push(std::shared_ptr<SealedStep> step);
  void push(const EpochEnd& end);

  /// Gives the rank to a client, with no credit. Delivery continues after `received`, or, without
  /// it, after the last microbatch that was acknowledged, and after the end of its epoch if that
  /// is over and not the last.
  void join(std::int32_t rank, const std::optional<Position>& received);
  /// Takes the rank from its client. `announced`: the client said so, and needs no end of the last
  /// epoch; one that is lost may come back for it.
  void leave(std::int32_t rank, bool announced);
  void grant(std::int32_t rank, std::uint32_t microbatches);
  /// Records that the rank has trained on everything up to `position`. Ignores positions that were
  /// acknowledged before or never sent.
  void acknowledge(std::int32_t rank, const Position& position);

  struct Delivery {
    std::int32_t rank = 0;
    std::shared_ptr<SealedStep> step;  ///< Null for an end of epoch.
    std::uint32_t microbatch = 0;
    EpochEnd end;
    std::shared_ptr<SealedStep> following = nullptr;  ///< The next step, if it has been pushed.
  };
  /// Returns the oldest microbatch or end of epoch that a present rank may be sent now, and counts
  /// it as sent. An end of epoch needs no credit.
  std::optional<Delivery> next();

  /// Returns whether the rank was sent a microbatch.
  bool begun(std::int32_t rank) const { return ranks_.at(static_cast<std::size_t>(rank)).begun; }
  /// Returns whether the rank has a client.
  bool present(std::int32_t rank) const {
    return ranks_.at(static_cast<std::size_t>(rank)).present;
  }
  /// Returns the number of ranks that have one.
  std::int64_t present() const;
  /// Returns the rank that was sent least, if it has no client and another rank waits for data;
  /// else nothing.
  std::optional<std::int32_t> absent_rank() const;
  /// Returns whether the rank is present and has credit, but nothing is left to send it.
  bool waits_for_data(std::int32_t rank) const {
    return waits_for_data(ranks_.at(static_cast<std::size_t>(rank)));
  }
  /// Returns whether any rank has trained on a microbatch.
  bool acknowledged_any() const;
  /// Returns the position of the first microbatch that the rank has not acknowledged, held or not;
  /// the start of the next epoch where the epoch has ended.
  Position next_of(std::int32_t rank) const;
  /// Returns whether any rank was sent a microbatch that it has not acknowledged.
  bool any_unacknowledged() const { return unacknowledged_ > 0; }
  /// Returns the oldest step that is held, if some rank has trained on a microbatch of it or of a
  /// later one, and not every rank on all of it; else nothing.
  std::optional<Position> inside_step() const;

  /// Returns how many steps the slowest rank was not sent completely: how far planning is ahead.
  std::size_t ahead() const;
  /// Returns the numbers of what it holds.
  QueueDepth depth() const;
  /// Returns the counts of what was acknowledged so far.
  const DeliveryCounts& delivered() const { return delivered_; }
  /// Drops the steps that were not sent to any rank, and ends with the others. Nothing more may
  /// be pushed. Returns the position of the first step that is not delivered.
  Position end_early();
  /// Returns a rank without a client that has not acknowledged everything, if nothing more will be
  /// pushed, some rank is done with everything, and so is every rank that has a client: nothing
  /// more can then happen without the returned rank.
  std::optional<std::int32_t> unfinished_absent_rank() const;
  /// Returns the ranks that have not acknowledged all that was planned.
  UnfinishedRanks unfinished() const;
  /// Returns a rank without a client that has acknowledged everything and is not known to have been
  /// told the end of the last epoch; else nothing.
  std::optional<std::int32_t> untold_absent_rank() const;
  /// Counts such a rank as done.
  void excuse(std::int32_t rank);
  /// A rank that has not acknowledged all of the oldest step.
  struct Behind {
    std::int32_t rank = 0;
    bool present = false;
    bool received = false;  ///< Whether it was sent all of the step.
    Position step;
    std::uint64_t steps_received = 0;  ///< Steps that are held and that it was sent all of.
  };
  /// Returns the ranks that keep the oldest step held; empty if no step is held.
  std::vector<Behind> behind() const;
  /// Returns whether every rank has acknowledged every microbatch, and was sent the end of the last
  /// epoch or has left without it. A client that comes for that end changes it.
  bool finished() const;
  /// Returns whether that holds for the rank.
  bool finished(std::int32_t rank) const {
    return complete_ && done_with_all(static_cast<std::size_t>(rank));
  }
  /// Returns whether nothing more will be pushed and every rank has acknowledged every microbatch.
  bool all_trained() const;
  /// Returns the step of a position while it is held, and for kReportSteps further steps, since a
  /// device may finish what is reported after the loop has moved on; null otherwise.
  std::shared_ptr<const SealedStep> find(const Position& position) const;

 private:
  struct Entry {
    std::shared_ptr<SealedStep> step;
    EpochEnd end;
  };
  struct Rank {
    bool present = false;
    bool needs_end = true;  // whether the end of the last epoch must still be sent
    bool begun = false;
    bool fresh = false;  // whether its client goes on for another one, and was sent nothing
    std::uint32_t credit = 0;
    std::uint64_t entry = 0;       // number of the entry to send next
    std::uint32_t microbatch = 0;  // index of the microbatch to send next in that entry
    std::optional<Position> sent;  // the last position sent; no client can have received more
    std::optional<Position> acknowledged;
    std::uint64_t done = 0;    // number of the first entry that the rank is not done with
    bool counted = false;      // in unacknowledged_
    bool may_be_sent = false;  // in ready_

    bool has_unacknowledged() const { return sent && (!acknowledged || *acknowledged < *sent); }
  };
  // The order in which microbatches leave: entry, microbatch, receiver.
  using Turn = std::tuple<std::uint64_t, std::uint32_t, std::size_t>;
  // A change of a rank's state, which ends with the derived state up to date.
  class Change;

  const Entry* entry_at(std::uint64_t number) const;
  bool waits_for_data(const Rank& rank) const {
    return rank.present && rank.credit > 0 && entry_at(rank.entry) == nullptr;
  }
  bool done_with_all(std::size_t receiver) const;
  std::uint64_t steps_between(std::uint64_t first, std::uint64_t end) const;
  void seek_after(std::size_t number, const std::optional<Position>& position);
  void pass_ended_epochs(Rank& rank) const;
  bool is_last_end(std::uint64_t number) const;
  bool done_with(std::size_t receiver, std::uint64_t number) const;
  std::uint32_t acknowledged_of(std::size_t receiver, const SealedStep& step) const;
  void count_delivered(std::size_t receiver, const std::optional<Position>& before,
                       const Position& now);
  void push(Entry entry);
  void pass(std::size_t receiver, const Entry& entry);
  void set_client(std::int32_t rank, bool present, bool needs_end);
  void drop_finished();
  void leave_indexes(std::size_t receiver);
  void enter_indexes(std::size_t receiver);

  std::vector<Rank> ranks_;
  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;  // number of entries_.front(), counted from the start of the job
  std::deque<std::shared_ptr<const SealedStep>> past_;  // the last kReportSteps that were dropped
  bool complete_ = false;                               // whether nothing more will be pushed
  Position next_step_;
  DeliveryCounts delivered_;

  // Derived from the ranks' states. Counts have an element for each entry, and one for its end.
  std::set<Turn> ready_;                 // ranks that may be sent something now
  std::deque<std::size_t> done_counts_;  // ranks by the first entry that they are not done with
  std::deque<std::size_t> sent_counts_;  // ranks by the entry to send next
  std::size_t unacknowledged_ = 0;       // ranks with has_unacknowledged()
};

}  // namespace isocost
