#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/internal/sealed_step.h"
#include "transport/messages.h"

namespace isocost {

/// Which microbatch goes to which rank next. Steps enter in order, each rank takes its microbatches
/// in order as its credit allows, and a step stays until every rank has acknowledged it: what is
/// not acknowledged can be delivered again. Its ranks are the receivers of a plan. A pure state
/// machine: no socket, no clock, no lock. Single-thread.
class DeliveryQueue {
 public:
  explicit DeliveryQueue(std::int32_t ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  void push(std::shared_ptr<SealedStep> step);
  void push(const EpochEnd& end);

  /// A client takes the rank: its credit is 0, and it is sent what follows `received` where it says
  /// so, else what follows the last acknowledged microbatch.
  void join(std::int32_t rank, const std::optional<Position>& received);
  void leave(std::int32_t rank);
  void grant(std::int32_t rank, std::uint32_t microbatches);
  /// Everything up to `position` is done for this rank. Positions of the past change nothing, nor
  /// do those that were never sent.
  void acknowledge(std::int32_t rank, const Position& position);

  struct Delivery {
    std::int32_t rank = 0;
    std::shared_ptr<SealedStep> step;  ///< Null for an end of epoch.
    std::uint32_t microbatch = 0;
    EpochEnd end;
  };
  /// The oldest thing that some present rank may be sent now, counted as sent. An end of epoch
  /// needs no credit.
  std::optional<Delivery> next();

  /// A client of the rank was sent a microbatch.
  bool begun(std::int32_t rank) const { return ranks_.at(static_cast<std::size_t>(rank)).begun; }
  /// A rank that has gone or never came, and at the front of what it was not sent; nothing while
  /// no rank waits with credit for something that is not there.
  std::optional<std::int32_t> awaited() const;
  bool waits(std::int32_t rank) const { return waits(ranks_.at(static_cast<std::size_t>(rank))); }
  /// Some rank has trained on a microbatch.
  bool acknowledged_any() const;

  /// Steps that the rank furthest behind has not been sent whole: how far planning is ahead.
  std::size_t ahead() const;
  /// How much it holds.
  QueueDepth depth() const;
  /// The last epoch's end was sent to every rank and every microbatch acknowledged.
  bool finished() const;
  /// The step where it is still held; null else.
  std::shared_ptr<const SealedStep> find(const Position& position) const;

 private:
  struct Entry {
    std::shared_ptr<SealedStep> step;
    EpochEnd end;
  };
  struct Rank {
    bool present = false;
    bool begun = false;
    std::uint32_t credit = 0;
    std::uint64_t entry = 0;       // the next thing to send: an entry ...
    std::uint32_t microbatch = 0;  // ... and a microbatch in it
    std::optional<Position> sent;  // the furthest; nobody can have received more
    std::optional<Position> acknowledged;
  };

  const Entry* entry_at(std::uint64_t number) const;
  bool waits(const Rank& rank) const {
    return rank.present && rank.credit > 0 && entry_at(rank.entry) == nullptr;
  }
  void seek_after(std::size_t number, const std::optional<Position>& position);
  bool done_with(std::size_t receiver, const Entry& entry) const;  // the front one
  std::uint32_t acknowledged_of(std::size_t receiver, const SealedStep& step) const;
  void drop_finished();

  std::vector<Rank> ranks_;
  std::deque<Entry> entries_;
  std::uint64_t first_ =
      0;  // number of entries_.front(); entries are numbered from the start of training
  bool last_seen_ = false;
};

}  // namespace isocost
