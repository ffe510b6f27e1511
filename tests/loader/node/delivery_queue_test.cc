#include "loader/node/internal/delivery_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/loader/node/node_support.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

// Returns a step of two ranks, with a sample in each microbatch.
std::shared_ptr<SealedStep> step(std::uint32_t epoch, std::uint32_t number,
                                 std::uint32_t microbatches) {
  return make_step(epoch, number, 2, microbatches);
}

// "rank:epoch.step.microbatch" or "rank:end epoch".
std::string text(const DeliveryQueue::Delivery& delivery) {
  const std::string rank = std::to_string(delivery.rank) + ":";
  if (delivery.step == nullptr) return rank + "end " + std::to_string(delivery.end.epoch);
  return rank + std::to_string(delivery.step->epoch) + "." + std::to_string(delivery.step->step) +
         "." + std::to_string(delivery.microbatch);
}

std::vector<std::string> drain(DeliveryQueue& queue) {
  std::vector<std::string> sent;
  while (const auto delivery = queue.next()) sent.push_back(text(*delivery));
  return sent;
}

using Texts = std::vector<std::string>;

// Two ranks, two steps of two microbatches, one epoch.
DeliveryQueue small_queue() {
  DeliveryQueue queue(2);
  queue.push(step(0, 0, 2));
  queue.push(step(0, 1, 2));
  queue.push(end_of_epoch(0, true));
  return queue;
}

TEST(DeliveryQueue, SendsNothingWithoutClientsOrCredit) {
  DeliveryQueue queue = small_queue();
  EXPECT_TRUE(drain(queue).empty());
  queue.join(0, {});
  EXPECT_TRUE(drain(queue).empty());
}

TEST(DeliveryQueue, LimitsTheCreditOfARank) {
  DeliveryQueue queue(1);
  for (std::uint32_t s = 0; s < kMaxCredit + 1; ++s) queue.push(make_step(0, s, 1, 1));
  queue.join(0, {});
  queue.grant(0, UINT32_MAX);
  queue.grant(0, kMaxCredit);
  EXPECT_EQ(drain(queue).size(), kMaxCredit);
}

TEST(DeliveryQueue, TakesTurnsOldestFirst) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.join(1, {});
  queue.grant(0, 2);
  queue.grant(1, 1);
  EXPECT_EQ(drain(queue), (Texts{"0:0.0.0", "1:0.0.0", "0:0.0.1"}));
}

TEST(DeliveryQueue, TellsWhichRanksKeepTheOldestStep) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 2);
  drain(queue);
  const auto behind = queue.behind();
  ASSERT_EQ(behind.size(), 2U);
  EXPECT_TRUE(behind[0].present && behind[0].received);
  EXPECT_FALSE(behind[1].present || behind[1].received);
  queue.acknowledge(0, {0, 0, 1});
  ASSERT_EQ(queue.behind().size(), 1U);
  EXPECT_EQ(queue.behind()[0].rank, 1);
  EXPECT_EQ(queue.behind()[0].step, (Position{0, 0, 0}));
  EXPECT_TRUE(DeliveryQueue(2).behind().empty());
}

TEST(DeliveryQueue, KnowsTheStepAtWhichARankGoesOn) {
  DeliveryQueue queue(2, {3, 5, 0});
  EXPECT_EQ(queue.next_of(0), (Position{3, 5, 0}));
  queue.push(make_step(3, 5, 2, 2));
  queue.push(make_step(3, 6, 2, 2));
  queue.push(end_of_epoch(3, false));
  for (const std::int32_t rank : {0, 1}) {
    queue.join(rank, {});
    queue.grant(rank, 10);
  }
  while (queue.next()) {
  }
  EXPECT_EQ(queue.next_of(0), (Position{3, 5, 0}));
  queue.acknowledge(0, {3, 5, 0});
  EXPECT_EQ(queue.next_of(0), (Position{3, 5, 1})) << "inside the step";
  queue.acknowledge(0, {3, 5, 1});
  EXPECT_EQ(queue.next_of(0), (Position{3, 6, 0}));
  EXPECT_EQ(queue.next_of(1), (Position{3, 5, 0}));
  queue.acknowledge(0, {3, 6, 1});
  EXPECT_EQ(queue.next_of(0), (Position{4, 0, 0}));
}

TEST(DeliveryQueue, EndsAnEpochWithoutCredit) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 4);
  EXPECT_EQ(drain(queue), (Texts{"0:0.0.0", "0:0.0.1", "0:0.1.0", "0:0.1.1", "0:end 0"}));
}

TEST(DeliveryQueue, NobodyCanHaveWhatWasNeverSent) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 1);
  drain(queue);
  queue.acknowledge(0, {0, 0, 1});
  queue.acknowledge(0, {~0U, ~0U, ~0U});
  queue.leave(0, false);
  queue.join(0, Position{5, 5, 5});
  queue.grant(0, 4);
  EXPECT_EQ(drain(queue), (Texts{"0:0.0.0", "0:0.0.1", "0:0.1.0", "0:0.1.1", "0:end 0"}));
}

TEST(DeliveryQueue, AFreshClientGetsWhatWasNotAcknowledged) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 3);
  drain(queue);
  queue.acknowledge(0, {0, 0, 0});
  queue.leave(0, false);
  queue.join(0, {});
  queue.grant(0, 4);
  EXPECT_EQ(drain(queue), (Texts{"0:0.0.1", "0:0.1.0", "0:0.1.1", "0:end 0"}));
}

TEST(DeliveryQueue, ACreditDoesNotOutliveItsClient) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 9);
  queue.leave(0, false);
  queue.join(0, {});
  EXPECT_TRUE(drain(queue).empty());
}

TEST(DeliveryQueue, AReconnectedClientGoesOnAfterWhatItHolds) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 4);
  drain(queue);
  queue.join(0, Position{0, 0, 1});
  queue.grant(0, 1);
  EXPECT_EQ(drain(queue), (Texts{"0:0.1.0"}));
  // It held the last microbatch: the end of the epoch may have been lost, and comes again.
  queue.join(0, Position{0, 1, 1});
  EXPECT_EQ(drain(queue), (Texts{"0:end 0"}));
}

TEST(DeliveryQueue, AcknowledgedIsGoneWhateverAClientClaims) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 4);
  drain(queue);
  queue.acknowledge(0, {0, 1, 0});
  queue.join(0, Position{0, 0, 0});
  queue.grant(0, 9);
  EXPECT_EQ(drain(queue), (Texts{"0:0.1.1", "0:end 0"}));
}

TEST(DeliveryQueue, FinishesWhenEverybodyAcknowledgedEverything) {
  DeliveryQueue queue = small_queue();
  for (const std::int32_t rank : {0, 1}) {
    queue.join(rank, {});
    queue.grant(rank, 4);
  }
  drain(queue);
  queue.acknowledge(0, {0, 1, 1});
  EXPECT_FALSE(queue.finished());
  queue.acknowledge(1, {0, 0, 1});
  queue.acknowledge(1, {0, 1, 1});
  EXPECT_TRUE(queue.finished());
}

// A client under load says hello again, and its end is due again when it closes.
TEST(DeliveryQueue, OwesNoEndToARankThatSaidThatItLeaves) {
  DeliveryQueue queue(1);
  queue.push(step(0, 0, 1));
  queue.push(end_of_epoch(0, false));
  queue.push(step(1, 0, 1));
  queue.push(end_of_epoch(1, true));
  queue.join(0, {});
  queue.grant(0, 9);
  drain(queue);
  queue.join(0, Position{1, 0, 0});
  queue.acknowledge(0, {1, 0, 0});
  EXPECT_FALSE(queue.finished());
  DeliveryQueue lost = queue;
  queue.leave(0, true);
  EXPECT_TRUE(queue.finished());
  lost.leave(0, false);
  EXPECT_FALSE(lost.finished()) << "a lost client may come back for the end";
  lost.join(0, {});
  EXPECT_EQ(drain(lost), (Texts{"0:end 1"}));
  EXPECT_TRUE(lost.finished());
}

TEST(DeliveryQueue, AClientThatGoesOnForAnotherIsNotToldTheEndOfTheEpochBefore) {
  DeliveryQueue queue(1);
  queue.push(step(0, 0, 1));
  queue.join(0, {});
  queue.grant(0, 9);
  drain(queue);
  queue.acknowledge(0, {0, 0, 0});
  queue.leave(0, true);
  queue.push(end_of_epoch(0, false));
  queue.push(step(1, 0, 1));
  DeliveryQueue reconnected = queue;
  for (DeliveryQueue* each : {&queue, &reconnected}) {
    each->join(0, each == &reconnected ? std::optional(Position{0, 0, 0}) : std::nullopt);
    each->grant(0, 9);
  }
  EXPECT_EQ(drain(queue), (Texts{"0:1.0.0"}));
  EXPECT_EQ(drain(reconnected), (Texts{"0:end 0", "0:1.0.0"})) << "its own epoch ends";
}

TEST(DeliveryQueue, AnAnnouncedLeaveIsNotAnAcknowledgement) {
  DeliveryQueue queue(1);
  queue.push(step(0, 0, 2));
  queue.push(end_of_epoch(0, true));
  queue.join(0, {});
  queue.grant(0, 9);
  drain(queue);
  queue.acknowledge(0, {0, 0, 0});
  queue.leave(0, true);
  EXPECT_FALSE(queue.finished(0));
  EXPECT_EQ(queue.untold_absent_rank(), std::nullopt);
  queue.join(0, {});
  queue.grant(0, 9);
  EXPECT_EQ(drain(queue), (Texts{"0:0.0.1", "0:end 0"}));
}

TEST(DeliveryQueue, ExcusesALostRankThatLacksTheEndAlone) {
  DeliveryQueue queue(2);
  queue.push(step(0, 0, 1));
  for (const std::int32_t rank : {0, 1}) {
    queue.join(rank, {});
    queue.grant(rank, 9);
  }
  drain(queue);
  queue.acknowledge(0, {0, 0, 0});
  queue.acknowledge(1, {0, 0, 0});
  queue.leave(0, false);
  EXPECT_EQ(queue.untold_absent_rank(), std::nullopt) << "more may be pushed";
  queue.push(end_of_epoch(0, true));
  EXPECT_EQ(drain(queue), (Texts{"1:end 0"}));
  EXPECT_EQ(queue.unfinished_absent_rank(), 0);
  EXPECT_EQ(queue.untold_absent_rank(), 0);
  EXPECT_FALSE(queue.finished());
  queue.excuse(0);
  EXPECT_EQ(queue.untold_absent_rank(), std::nullopt);
  EXPECT_TRUE(queue.finished());
}

// A state that was saved after the last epoch begins such a job.
TEST(DeliveryQueue, ExcusesALostRankOfAJobWithoutSteps) {
  DeliveryQueue queue(2);
  queue.push(end_of_epoch(0, true));
  for (const std::int32_t rank : {0, 1}) queue.join(rank, {});
  queue.leave(0, false);
  EXPECT_EQ(drain(queue), (Texts{"1:end 0"}));
  EXPECT_EQ(queue.untold_absent_rank(), 0);
  queue.excuse(0);
  EXPECT_TRUE(queue.finished());
}

// The end may be lost with the connection that it was sent on.
TEST(DeliveryQueue, RepeatsAnEndUntilTheRankTrainsInALaterEpoch) {
  DeliveryQueue queue(1);
  queue.push(step(0, 0, 1));
  queue.push(end_of_epoch(0, false));
  queue.push(step(1, 0, 2));
  queue.join(0, {});
  queue.grant(0, 9);
  EXPECT_EQ(drain(queue).size(), 4U);
  queue.acknowledge(0, {0, 0, 0});
  queue.join(0, Position{0, 0, 0});
  queue.grant(0, 9);
  EXPECT_EQ(drain(queue), (Texts{"0:end 0", "0:1.0.0", "0:1.0.1"}));
  queue.acknowledge(0, {1, 0, 0});
  queue.join(0, Position{0, 0, 0});
  queue.grant(0, 9);
  EXPECT_EQ(drain(queue), (Texts{"0:1.0.1"}));
}

// Its connection may be lost with the last end, after which nothing is acknowledged.
TEST(DeliveryQueue, TellsTheLastEndToAClientThatComesBackForIt) {
  DeliveryQueue queue = small_queue();
  for (const std::int32_t rank : {0, 1}) {
    queue.join(rank, {});
    queue.grant(rank, 9);
  }
  drain(queue);
  EXPECT_FALSE(queue.all_trained());
  queue.acknowledge(0, {0, 1, 1});
  EXPECT_FALSE(queue.all_trained());
  queue.acknowledge(1, {0, 1, 1});
  EXPECT_TRUE(queue.all_trained());
  EXPECT_TRUE(queue.finished());
  queue.join(1, Position{0, 1, 1});
  EXPECT_FALSE(queue.finished());
  EXPECT_TRUE(queue.all_trained());
  EXPECT_EQ(drain(queue), (Texts{"1:end 0"}));
  EXPECT_TRUE(queue.finished());
}

// Planning may be slower than the client that takes over.
TEST(DeliveryQueue, AnEndThatIsPlannedLaterIsNotToldToAClientThatTakesOver) {
  DeliveryQueue queue(1);
  queue.push(step(0, 0, 1));
  queue.join(0, {});
  queue.grant(0, 9);
  drain(queue);
  queue.acknowledge(0, {0, 0, 0});
  queue.leave(0, false);
  queue.join(0, {});
  queue.grant(0, 9);
  queue.push(end_of_epoch(0, false));
  queue.push(step(1, 0, 1));
  queue.push(end_of_epoch(1, true));
  EXPECT_EQ(drain(queue), (Texts{"0:1.0.0", "0:end 1"}));
}

// The report on a step comes when the device has finished it: the loop has then moved on.
TEST(DeliveryQueue, FindsStepsThatAreHeldAndTheLastFewThatWere) {
  DeliveryQueue queue(1);
  queue.join(0, {});
  constexpr auto kMore = static_cast<std::uint32_t>(DeliveryQueue::kReportSteps) + 1;
  for (std::uint32_t step = 0; step <= kMore; ++step) {
    queue.push(make_step(0, step, 1, 1));
    queue.grant(0, 1);
    ASSERT_TRUE(queue.next().has_value());
  }
  EXPECT_NE(queue.find({0, 0, 0}), nullptr);
  queue.acknowledge(0, {0, kMore - 1, 0});
  EXPECT_EQ(queue.depth().steps, 1U);
  EXPECT_EQ(queue.find({0, 0, 0}), nullptr);
  EXPECT_NE(queue.find({0, 1, 0}), nullptr);
  EXPECT_NE(queue.find({0, kMore, 0}), nullptr);
  EXPECT_EQ(queue.find({0, kMore + 1, 0}), nullptr);
}

TEST(DeliveryQueue, CountsWhatWasAcknowledged) {
  DeliveryQueue queue = small_queue();
  for (const std::int32_t rank : {0, 1}) {
    queue.join(rank, {});
    queue.grant(rank, 4);
  }
  drain(queue);
  EXPECT_EQ(queue.delivered().samples, 0U);  // sent is not delivered
  queue.acknowledge(0, {0, 1, 0});
  EXPECT_EQ(queue.delivered().samples, 3U);
  EXPECT_EQ(queue.delivered().steps, 0U);
  queue.acknowledge(1, {0, 0, 1});
  EXPECT_EQ(queue.delivered().samples, 5U);
  EXPECT_EQ(queue.delivered().steps, 1U);
  for (const Position& again : {Position{0, 0, 1}, Position{0, 0, 0}, Position{5, 5, 5}}) {
    queue.acknowledge(1, again);
  }
  // A microbatch that is sent again counts once.
  queue.leave(1, false);
  queue.join(1, {});
  queue.grant(1, 4);
  drain(queue);
  EXPECT_EQ(queue.delivered().samples, 5U);
  queue.acknowledge(1, {0, 1, 1});
  queue.acknowledge(0, {0, 1, 1});
  EXPECT_EQ(queue.delivered().samples, 8U);
  EXPECT_EQ(queue.delivered().steps, 2U);
}

TEST(DeliveryQueue, OldAcknowledgementsChangeNothing) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.grant(0, 4);
  drain(queue);
  queue.acknowledge(0, {0, 1, 0});
  queue.acknowledge(0, {0, 0, 0});
  queue.join(0, {});
  queue.grant(0, 9);
  EXPECT_EQ(drain(queue), (Texts{"0:0.1.1", "0:end 0"}));
}

TEST(DeliveryQueue, CountsStepsAheadOfTheSlowest) {
  DeliveryQueue queue = small_queue();
  EXPECT_EQ(queue.ahead(), 2U);
  queue.join(0, {});
  queue.join(1, {});
  queue.grant(0, 4);
  queue.grant(1, 2);
  drain(queue);
  EXPECT_EQ(queue.ahead(), 1U);  // rank 1 has the first step
}

TEST(DeliveryQueue, GoesOnWithTheNextEpoch) {
  DeliveryQueue queue(1);
  queue.push(step(0, 0, 1));
  queue.push(end_of_epoch(0, false));
  queue.join(0, {});
  queue.grant(0, 2);
  EXPECT_EQ(drain(queue), (Texts{"0:0.0.0", "0:end 0"}));
  queue.acknowledge(0, {0, 0, 0});
  EXPECT_FALSE(queue.finished());
  queue.push(step(1, 0, 1));
  queue.push(end_of_epoch(1, true));
  EXPECT_EQ(drain(queue), (Texts{"0:1.0.0", "0:end 1"}));
  queue.acknowledge(0, {1, 0, 0});
  EXPECT_TRUE(queue.finished());
}

TEST(DeliveryQueue, TellsHowMuchItHolds) {
  DeliveryQueue queue = small_queue();
  EXPECT_EQ(queue.depth().steps, 2U);
  EXPECT_EQ(queue.depth().planned, 8U);
  EXPECT_EQ(queue.depth().unacknowledged, 0U);
  EXPECT_EQ(queue.depth().oldest, (Position{0, 0, 0}));
  queue.join(0, {});
  queue.join(1, {});
  queue.grant(0, 3);
  queue.grant(1, 4);
  drain(queue);
  EXPECT_EQ(queue.depth().planned, 1U);
  EXPECT_EQ(queue.depth().unacknowledged, 7U);
  queue.acknowledge(0, {0, 1, 0});
  queue.acknowledge(1, {0, 0, 0});
  EXPECT_EQ(queue.depth().steps, 2U);
  EXPECT_EQ(queue.depth().planned, 1U);
  EXPECT_EQ(queue.depth().unacknowledged, 3U);
  queue.acknowledge(1, {0, 1, 1});
  EXPECT_EQ(queue.depth().steps, 1U);
  EXPECT_EQ(queue.depth().oldest, (Position{0, 1, 0}));
  EXPECT_EQ(queue.depth().unacknowledged, 0U);
  // It comes back with nothing: what it has not acknowledged waits again.
  queue.leave(0, false);
  queue.join(0, {});
  EXPECT_EQ(queue.depth().planned, 1U);
}

TEST(DeliveryQueue, EndsEarlyWithTheStepsThatSomeRankHasBegun) {
  DeliveryQueue queue = small_queue();
  queue.join(0, {});
  queue.join(1, {});
  queue.grant(0, 1);
  ASSERT_EQ(drain(queue), (Texts{"0:0.0.0"}));
  EXPECT_EQ(queue.end_early(), (Position{0, 1, 0}));
  queue.grant(0, 9);
  queue.grant(1, 9);
  EXPECT_EQ(drain(queue), (Texts{"1:0.0.0", "0:0.0.1", "1:0.0.1"}));
  queue.acknowledge(0, {0, 0, 1});
  EXPECT_FALSE(queue.finished());
  queue.acknowledge(1, {0, 0, 1});
  EXPECT_TRUE(queue.finished());
}

TEST(DeliveryQueue, EndsEarlyAtOnceWhereNothingWasSent) {
  DeliveryQueue queue = small_queue();
  EXPECT_EQ(queue.end_early(), (Position{0, 0, 0}));
  EXPECT_TRUE(queue.finished());
  DeliveryQueue empty(2, {3, 7, 0});
  EXPECT_EQ(empty.end_early(), (Position{3, 7, 0}));
}

TEST(DeliveryQueue, EndsEarlyAfterAllThatWasPushedWhereAllOfItWasBegun) {
  DeliveryQueue queue(1);
  queue.push(make_step(0, 4, 1, 1));
  queue.join(0, {});
  queue.grant(0, 9);
  drain(queue);
  EXPECT_EQ(queue.end_early(), (Position{0, 5, 0}));
  EXPECT_FALSE(queue.finished());
  queue.acknowledge(0, {0, 4, 0});
  EXPECT_TRUE(queue.finished());
}

TEST(DeliveryQueue, NamesTheAbsentRankThatAloneKeepsItFromItsEnd) {
  DeliveryQueue queue = small_queue();
  for (const std::int32_t rank : {0, 1}) {
    queue.join(rank, {});
    queue.grant(rank, 9);
  }
  drain(queue);
  queue.leave(1, false);
  EXPECT_FALSE(queue.unfinished_absent_rank().has_value());  // rank 0 still trains
  queue.acknowledge(0, {0, 1, 1});
  EXPECT_EQ(queue.unfinished_absent_rank(), 1);
  queue.join(1, {});
  EXPECT_FALSE(queue.unfinished_absent_rank().has_value());
}

// A queue that keeps all entries and looks at all ranks each time: slow, and easily seen to be
// right.
class PlainQueue {
 public:
  PlainQueue(std::int32_t ranks, std::uint32_t microbatches)
      : ranks_(static_cast<std::size_t>(ranks)), microbatches_(microbatches) {}

  void push(bool is_end, bool last) {
    entries_.push_back({is_end, last});
    skip();
  }
  void join(std::size_t rank) {
    State& state = ranks_[rank];
    state.present = state.needs_end = true;
    state.credit = 0;
    state.at = {state.acked.first, state.acked.second};  // the first that is not acknowledged
    state.fresh = true;
    skip();
  }
  void leave(std::size_t rank, bool announced) {
    ranks_[rank].present = false;
    ranks_[rank].needs_end = !announced;
  }
  void grant(std::size_t rank, std::uint32_t n) { ranks_[rank].credit += n; }
  // Acknowledges all that the rank was ever sent.
  void acknowledge(std::size_t rank) {
    ranks_[rank].acked = ranks_[rank].sent;
    skip();
  }

  // Returns the rank to send to, and the number of the entry; nothing if there is none.
  std::optional<std::pair<std::size_t, std::size_t>> next() {
    std::optional<std::size_t> chosen;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const State& state = ranks_[r];
      if (!state.present || state.at.first >= entries_.size()) continue;
      if (!entries_[state.at.first].is_end && state.credit == 0) continue;
      if (!chosen || state.at < ranks_[*chosen].at) chosen = r;
    }
    if (!chosen) return std::nullopt;
    State& state = ranks_[*chosen];
    const std::pair sent(*chosen, state.at.first);
    if (entries_[state.at.first].is_end) {
      state.at = {state.at.first + 1, 0};
      state.ended = std::max(state.ended, state.at.first);
    } else {
      state.credit -= 1;
      state.fresh = false;
      state.at.second += 1;
      if (state.at.second == microbatches_) state.at = {state.at.first + 1, 0};
      state.sent = std::max(state.sent, state.at);
    }
    return sent;
  }
  std::size_t dropped() const {
    std::size_t entry = 0;
    while (
        entry < entries_.size() && !entries_[entry].last &&
        std::ranges::all_of(ranks_, [&](const State& state) { return done_with(state, entry); })) {
      ++entry;
    }
    return entry;
  }
  std::size_t steps(std::size_t first, std::size_t end) const {
    std::size_t steps = 0;
    for (std::size_t e = first; e < end; ++e) steps += entries_[e].is_end ? 0 : 1;
    return steps;
  }
  std::size_t ahead() const {
    std::size_t slowest = entries_.size();
    for (const State& state : ranks_) {
      slowest = std::min(slowest, std::max(state.at.first, dropped()));
    }
    return steps(slowest, entries_.size());
  }
  bool any_unacknowledged() const {
    return std::ranges::any_of(ranks_, [](const State& s) { return s.acked < s.sent; });
  }
  bool finished() const {
    return !entries_.empty() && entries_.back().last && dropped() + 1 == entries_.size() &&
           std::ranges::all_of(
               ranks_, [&](const State& state) { return done_with(state, entries_.size() - 1); });
  }

 private:
  using At = std::pair<std::size_t, std::uint32_t>;  // entry and microbatch to come
  struct Entry {
    bool is_end = false;
    bool last = false;
  };
  struct State {
    bool present = false;
    bool needs_end = true;
    std::uint32_t credit = 0;
    At at{0, 0};
    bool fresh = false;  // its client was sent nothing
    At sent{0, 0};       // after the last microbatch that was sent
    At acked{0, 0};      // after the last one acknowledged
    std::size_t ended = 0;
  };

  bool done_with(const State& state, std::size_t entry) const {
    if (entries_[entry].last) return state.at.first > entry || !state.needs_end;
    return entries_[entry].is_end ? state.acked > At{entry + 1, 0}
                                  : state.acked >= At{entry + 1, 0};
  }
  // Nothing is sent again that all are done with. A client that joins anew is not told of the epoch
  // in which another one has trained before it.
  void skip() {
    for (State& state : ranks_) {
      state.at = std::max(state.at, At{dropped(), 0});
      while (state.fresh && state.acked != At{0, 0} && state.at.first < entries_.size() &&
             entries_[state.at.first].is_end && !entries_[state.at.first].last &&
             state.acked.first >= state.at.first) {
        state.at.first += 1;
      }
    }
  }

  std::vector<State> ranks_;
  std::vector<Entry> entries_;
  const std::uint32_t microbatches_;
};

constexpr std::uint32_t kStepsOfEpoch = 3;

// Returns the number of what is sent, among all steps and ends.
std::size_t entry_of(const DeliveryQueue::Delivery& delivery) {
  const bool is_end = delivery.step == nullptr;
  const std::uint32_t epoch = is_end ? delivery.end.epoch : delivery.step->epoch;
  return epoch * (kStepsOfEpoch + 1) + (is_end ? kStepsOfEpoch : delivery.step->step);
}

TEST(DeliveryQueue, SendsWhatAPlainQueueWould) {
  constexpr std::int32_t kRanks = 3;
  constexpr std::uint32_t kMicrobatches = 2;
  std::size_t deliveries = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    DeliveryQueue queue(kRanks);
    PlainQueue plain(kRanks, kMicrobatches);
    std::vector<std::optional<Position>> sent(kRanks);
    std::uint32_t epoch = 0;
    std::uint32_t number = 0;
    bool complete = false;
    for (int action = 0; action < 120; ++action) {
      const auto rank = static_cast<std::int32_t>(random.below(kRanks));
      const auto r = static_cast<std::size_t>(rank);
      switch (random.below(8)) {
        case 0:
        case 1:
          if (complete) break;
          if (number == kStepsOfEpoch) {
            complete = epoch == 2;
            queue.push(end_of_epoch(epoch++, complete));
            plain.push(true, complete);
            number = 0;
          } else {
            queue.push(make_step(epoch, number++, kRanks, kMicrobatches));
            plain.push(false, false);
          }
          break;
        case 2:
          queue.join(rank, {});
          plain.join(r);
          break;
        case 3: {
          const bool announced = random.below(2) == 0;
          queue.leave(rank, announced);
          plain.leave(r, announced);
          break;
        }
        case 4:
        case 5:
          queue.grant(rank, 2);
          plain.grant(r, 2);
          break;
        case 6:
          if (!sent[r]) break;
          queue.acknowledge(rank, *sent[r]);
          plain.acknowledge(r);
          break;
        default:
          while (const auto delivery = queue.next()) {
            const auto expected = plain.next();
            ASSERT_TRUE(expected.has_value()) << text(*delivery);
            ASSERT_EQ(std::pair(static_cast<std::size_t>(delivery->rank), entry_of(*delivery)),
                      *expected)
                << seed << ", action " << action;
            ++deliveries;
            if (delivery->step == nullptr) continue;
            const Position at{delivery->step->epoch, delivery->step->step, delivery->microbatch};
            std::optional<Position>& last = sent[static_cast<std::size_t>(delivery->rank)];
            if (!last || *last < at) last = at;
          }
          ASSERT_EQ(plain.next(), std::nullopt) << seed;
      }
      ASSERT_EQ(queue.ahead(), plain.ahead()) << seed << ", action " << action;
      ASSERT_EQ(queue.any_unacknowledged(), plain.any_unacknowledged()) << seed;
      ASSERT_EQ(queue.delivered().steps, plain.steps(0, plain.dropped())) << seed;
      ASSERT_EQ(queue.finished(), plain.finished()) << seed;
    }
  }
  EXPECT_GT(deliveries, 5'000U);
}

}  // namespace
}  // namespace isocost
