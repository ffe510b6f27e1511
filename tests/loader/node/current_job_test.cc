#include "loader/node/internal/current_job.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <variant>

#include "tests/loader/node/node_support.h"
#include "tests/support/manual_clock.h"

namespace isocost {
namespace {

using std::chrono_literals::operator""s;

constexpr std::chrono::seconds kLong{60};  // longer than any test waits

NodeOptions some_options() {
  NodeOptions options;
  options.data = "shards";
  return options;
}

Hello hello_of(std::int32_t rank, std::int32_t world_size) {
  Hello hello;
  hello.rank = rank;
  hello.world_size = world_size;
  return hello;
}

class CurrentJobTest : public testing::Test {
 protected:
  std::uint64_t begin(std::int32_t ranks) {
    Hello hello;
    hello.world_size = ranks;
    return job_.begin(hello, true).value().id;
  }
  void join(std::int32_t rank, std::uint32_t credit) {
    job_.join({rank, false, {}, std::uint64_t{100} + static_cast<std::uint64_t>(rank)});
    job_.grant(rank, credit);
  }
  // Has the only rank of a job leave inside its first step. Returns the job.
  std::uint64_t leave_inside_step() {
    const std::uint64_t job = begin(1);
    join(0, 10);
    EXPECT_TRUE(job_.push(job, make_step(0, 0, 1, 2)));
    while (next_rank(job)) {
    }
    job_.acknowledge(0, {0, 0, 0});
    job_.leave(0);
    return job;
  }
  // Returns the result of `next` without waiting.
  Result<CurrentJob::Next> next(std::uint64_t job) { return job_.next(job, 0s, {}); }
  std::optional<std::int32_t> next_rank(std::uint64_t job) {
    const auto given = next(job);
    if (!given) return std::nullopt;
    const auto* outgoing = std::get_if<CurrentJob::Outgoing>(&*given);
    if (outgoing == nullptr) return std::nullopt;
    return outgoing->delivery.rank;
  }

  const Hello only_rank_ = hello_of(0, 1);
  ManualClock clock_;
  NodeOptions options_ = some_options();
  CurrentJob job_{{JoinRequirements{options_}, 2, clock_.clock()}};
};

TEST_F(CurrentJobTest, PlanningWaitsForTheFirstJob) {
  std::optional<Result<JobTerms>> terms;
  {
    const std::jthread planner([&] { terms = job_.wait_for_job({}); });
    begin(3);
  }
  ASSERT_TRUE(terms->has_value());
  EXPECT_EQ((*terms)->ranks, 3);
  EXPECT_EQ((*terms)->id, 1U);
}

TEST_F(CurrentJobTest, AStopEndsTheWaitForAJob) {
  std::stop_source stop;
  std::optional<Result<JobTerms>> terms;
  {
    const std::jthread planner([&] { terms = job_.wait_for_job(stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_EQ(terms->error().code(), ErrorCode::kCancelled);
}

TEST_F(CurrentJobTest, AClientJoinsWhatAnotherBegan) {
  begin(2);
  Hello hello;
  hello.rank = 1;
  hello.world_size = 2;
  const auto admitted = job_.admit({.hello = hello}, nullptr);
  ASSERT_TRUE(admitted.has_value());
  EXPECT_EQ(admitted->kind, CurrentJob::Admission::Kind::kJoined);
  EXPECT_EQ(admitted->job.ranks, 2);
}

TEST_F(CurrentJobTest, AClientWithoutARankLearnsTheNumberOfRanks) {
  Hello hello;
  hello.rank = kNoRank;
  EXPECT_EQ(job_.admit({.hello = hello}, nullptr)->job.ranks, 1);
  begin(3);
  EXPECT_EQ(job_.admit({.hello = hello}, nullptr)->job.ranks, 3);
}

TEST_F(CurrentJobTest, AnotherJobWaitsForClientsToLeaveAndThenSupersedes) {
  const std::uint64_t first = begin(1);
  Hello other;
  other.world_size = 2;
  EXPECT_EQ(job_.begin(other, false).error().code, ErrorCode::kUnavailable);
  clock_.advance(3s);  // nobody has trained on anything: the ranks disagree
  EXPECT_EQ(job_.begin(other, false).error().code, ErrorCode::kInvalidArgument);
  const std::uint64_t second = job_.begin(other, true).value().id;
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(job_.push(first, make_step(0, 0, 1, 1)).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(job_.push(first, end_of_epoch(0, true)).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(job_.wait_for_room(first, {}).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(next(first).error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(job_.wait_for_room(second, {}).has_value());
}

TEST_F(CurrentJobTest, NoOtherJobBeginsOnceEveryRankIsDoneWithTheLastEpoch) {
  const std::uint64_t job = begin(1);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 1)));
  ASSERT_TRUE(job_.push(job, end_of_epoch(0, true)));
  join(0, 9);
  EXPECT_EQ(next_rank(job), 0);  // the microbatch
  EXPECT_EQ(next_rank(job), 0);  // the end
  job_.acknowledge(0, Position{0, 0, 0});
  job_.leave(0);
  // Nothing has asked for what comes next, as when the client is faster than the delivering thread.
  const auto begun = job_.begin(Hello{}, true);
  ASSERT_FALSE(begun.has_value());
  EXPECT_EQ(begun.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::holds_alternative<CurrentJob::Finished>(next(job).value()));
}

TEST_F(CurrentJobTest, AnotherJobEndsTheWaitsOfTheOneBefore) {
  const std::uint64_t first = begin(1);
  for (std::uint32_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(job_.push(first, make_step(0, step, 1, 1)));
  }
  std::optional<Status> room;
  std::optional<Result<CurrentJob::Next>> given;
  {
    const std::jthread planner([&] { room = job_.wait_for_room(first, {}); });
    const std::jthread deliverer([&] { given = job_.next(first, kLong, {}); });
    begin(2);
  }
  EXPECT_EQ(room->error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(given->error().code(), ErrorCode::kCancelled);
}

TEST_F(CurrentJobTest, PlanningWaitsUntilTheSlowestRankWasSentAStep) {
  const std::uint64_t job = begin(2);
  for (std::uint32_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(job_.wait_for_room(job, {}));  // up to plan_ahead steps, and the one being planned
    ASSERT_TRUE(job_.push(job, make_step(0, step, 2, 1)));
  }
  join(0, 9);
  join(1, 1);
  std::optional<Status> room;
  std::latch waiting(1);
  {
    const std::jthread planner([&] {
      waiting.count_down();
      room = job_.wait_for_room(job, {});
    });
    waiting.wait();
    while (next_rank(job)) {
    }
  }
  EXPECT_TRUE(room->has_value());
}

TEST_F(CurrentJobTest, AStopEndsTheWaitForRoom) {
  const std::uint64_t job = begin(1);
  for (std::uint32_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(job_.push(job, make_step(0, step, 1, 1)));
  }
  std::stop_source stop;
  std::optional<Status> room;
  {
    const std::jthread planner([&] { room = job_.wait_for_room(job, stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_EQ(room->error().code(), ErrorCode::kCancelled);
}

TEST_F(CurrentJobTest, DeliveryWaitsForCreditAndNamesTheSession) {
  const std::uint64_t job = begin(1);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 1)));
  std::optional<Result<CurrentJob::Next>> given;
  {
    const std::jthread deliverer([&] { given = job_.next(job, kLong, {}); });
    join(0, 1);
  }
  ASSERT_TRUE(given->has_value());
  const auto& outgoing = std::get<CurrentJob::Outgoing>(**given);
  EXPECT_EQ(outgoing.delivery.rank, 0);
  EXPECT_EQ(outgoing.session, 100U);
}

TEST_F(CurrentJobTest, NothingToSendIsNotTheEnd) {
  const std::uint64_t job = begin(1);
  EXPECT_TRUE(std::holds_alternative<CurrentJob::NothingToSend>(next(job).value()));
}

TEST_F(CurrentJobTest, IsFinishedWhenTheLastEpochIsAcknowledged) {
  const std::uint64_t job = begin(1);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 1)));
  ASSERT_TRUE(job_.push(job, end_of_epoch(0, true)));
  join(0, 1);
  EXPECT_EQ(next_rank(job), 0);
  EXPECT_EQ(next_rank(job), 0);  // the end of the epoch
  EXPECT_TRUE(std::holds_alternative<CurrentJob::NothingToSend>(next(job).value()));
  job_.acknowledge(0, {0, 0, 0});
  EXPECT_TRUE(std::holds_alternative<CurrentJob::Finished>(next(job).value()));
}

TEST_F(CurrentJobTest, TheFirstFailureEndsDelivery) {
  const std::uint64_t job = begin(1);
  std::optional<Result<CurrentJob::Next>> given;
  {
    const std::jthread deliverer([&] { given = job_.next(job, kLong, {}); });
    job_.fail(Error(ErrorCode::kCorrupt, "first"));
  }
  job_.fail(Error(ErrorCode::kIo, "second"));
  EXPECT_EQ(given->error().message(), "first");
  EXPECT_EQ(next(job).error().message(), "first");
}

TEST_F(CurrentJobTest, AStopEndsDelivery) {
  const std::uint64_t job = begin(1);
  std::stop_source stop;
  std::optional<Result<CurrentJob::Next>> given;
  {
    const std::jthread deliverer([&] { given = job_.next(job, kLong, stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_EQ(given->error().code(), ErrorCode::kCancelled);
}

TEST_F(CurrentJobTest, NamesTheRankThatOthersWaitFor) {
  constexpr std::chrono::seconds kAWhile{2};
  const std::uint64_t job = begin(3);
  for (std::uint32_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(job_.push(job, make_step(0, step, 3, 1)));
  }
  join(0, 9);
  join(2, 9);
  EXPECT_FALSE(job_.blocked_ranks(job, kAWhile).has_value());  // there is something to send them
  while (next_rank(job)) {
  }
  EXPECT_FALSE(job_.blocked_ranks(job, kAWhile).has_value());  // it may come yet
  clock_.advance(kAWhile);
  const auto blocked = job_.blocked_ranks(job, kAWhile);
  ASSERT_TRUE(blocked.has_value());
  EXPECT_EQ(blocked->absent, 1);
  EXPECT_FALSE(blocked->joined_before);
  ASSERT_EQ(blocked->waiting.size(), 2U);
  EXPECT_EQ(blocked->waiting[1].rank, 2);
  EXPECT_EQ(blocked->waiting[1].session, 102U);
  EXPECT_FALSE(job_.blocked_ranks(job + 1, kAWhile).has_value());

  join(1, 0);
  EXPECT_FALSE(job_.blocked_ranks(job, kAWhile).has_value());  // slow, but here
  job_.leave(1);
  EXPECT_FALSE(job_.blocked_ranks(job, kAWhile).has_value());  // it may come back
  clock_.advance(kAWhile);
  EXPECT_TRUE(job_.blocked_ranks(job, kAWhile).value().joined_before);
}

TEST_F(CurrentJobTest, FindsTheStepOfAMicrobatch) {
  EXPECT_EQ(job_.find(0, {0, 0, 0}).step, nullptr);
  const std::uint64_t job = begin(1);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 2)));
  EXPECT_NE(job_.find(0, {0, 0, 1}).step, nullptr);
  EXPECT_EQ(job_.find(0, {0, 0, 1}).job, job);
  EXPECT_EQ(job_.find(0, {0, 0, 2}).step, nullptr);  // no such microbatch
  EXPECT_EQ(job_.find(1, {0, 0, 0}).step, nullptr);  // no such rank
  EXPECT_EQ(job_.find(0, {0, 1, 0}).step, nullptr);
}

TEST_F(CurrentJobTest, CountsWhatAllItsJobsDelivered) {
  for (int jobs = 1; jobs <= 2; ++jobs) {
    const std::uint64_t job = begin(1);
    ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 2)));
    join(0, 2);
    while (next_rank(job)) {
    }
    job_.acknowledge(0, {0, 0, 0});
    EXPECT_EQ(job_.delivered().samples, 2U * jobs - 1);
    job_.acknowledge(0, {0, 0, 1});
    EXPECT_EQ(job_.delivered().samples, 2U * jobs);
    EXPECT_EQ(job_.delivered().steps, 1U * jobs);
  }
}

TEST_F(CurrentJobTest, RanksThatTheJobDoesNotHaveAreIgnored) {
  job_.join({0, false, {}, 1});
  job_.grant(0, 1);
  job_.acknowledge(0, {0, 0, 0});
  job_.leave(0);
  begin(1);
  for (const std::int32_t rank : {-1, 1}) {
    join(rank, 1);
    job_.acknowledge(rank, {0, 0, 0});
    job_.leave(rank);
  }
  EXPECT_EQ(job_.depth().present, 0);
}

TEST_F(CurrentJobTest, WaitsForClientsToJoinAndLeave) {
  EXPECT_TRUE(job_.wait_until_left(0s));  // no job
  begin(1);
  EXPECT_FALSE(job_.wait_until_joined(0s));
  EXPECT_FALSE(job_.wait_until_left(0s));
  bool joined = false;
  bool left = false;
  {
    const std::jthread embedding([&] {
      joined = job_.wait_until_joined(kLong);
      left = job_.wait_until_left(kLong);
    });
    join(0, 0);
    job_.leave(0);
  }
  EXPECT_TRUE(joined);
  EXPECT_TRUE(left);
}

TEST_F(CurrentJobTest, SomethingIsExpectedOfRanksThatTrainOrAreLost) {
  EXPECT_FALSE(job_.activity().expected) << "no job";
  begin(2);
  join(0, 1);
  join(1, 1);
  EXPECT_TRUE(job_.activity().expected);
  job_.leave(0, /*lost=*/true);
  job_.leave(1, /*lost=*/false);
  EXPECT_TRUE(job_.activity().expected) << "rank 0 should come back";
  join(0, 1);
  job_.leave(0, /*lost=*/false);
  EXPECT_FALSE(job_.activity().expected) << "all have said that they leave";
}

TEST_F(CurrentJobTest, OnlyAnAcknowledgementIsProgressOnceSomethingWasSent) {
  const std::uint64_t job = begin(1);
  join(0, 10);
  const std::uint64_t at_first = job_.activity().changes;
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 2)));
  EXPECT_GT(job_.activity().changes, at_first);
  EXPECT_EQ(next_rank(job), 0);
  const std::uint64_t sent = job_.activity().changes;
  EXPECT_GT(sent, at_first + 1);
  EXPECT_EQ(next_rank(job), 0);
  ASSERT_TRUE(job_.push(job, make_step(0, 1, 1, 2)));
  EXPECT_EQ(job_.activity().changes, sent);
  job_.acknowledge(0, {0, 0, 1});
  EXPECT_GT(job_.activity().changes, sent);
}

TEST_F(CurrentJobTest, ARepeatedStepIsAnotherJob) {
  const std::uint64_t job = leave_inside_step();
  const auto again = job_.admit({.hello = only_rank_, .alone = true}, nullptr);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->kind, CurrentJob::Admission::Kind::kRepeated);
  EXPECT_GT(again->job.id, job);
  EXPECT_EQ(again->job.start.step, 0U);
  EXPECT_EQ(again->unasked.next, (Position{0, 0, 0}));
  EXPECT_EQ(next(job).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(job_.delivered().samples, 1U);
  EXPECT_EQ(job_.delivered_of_job().samples, 0U);
}

TEST_F(CurrentJobTest, NoStepIsRepeatedBesideOtherClients) {
  const std::uint64_t job = leave_inside_step();
  const auto admitted = job_.admit({.hello = only_rank_, .alone = false}, nullptr);
  ASSERT_TRUE(admitted.has_value());
  EXPECT_EQ(admitted->kind, CurrentJob::Admission::Kind::kJoined);
  EXPECT_EQ(admitted->job.id, job);
  EXPECT_EQ(admitted->unasked.next, (Position{0, 0, 1}));
}

TEST_F(CurrentJobTest, NoStepIsRepeatedWhileDraining) {
  leave_inside_step();
  job_.drain();
  EXPECT_EQ(job_.admit({.hello = only_rank_, .alone = true}, nullptr).error().code,
            ErrorCode::kDraining);
}

TEST_F(CurrentJobTest, ARankThatIsTakenIsRefusedUnlessAnotherJobIsAskedFor) {
  begin(2);
  const Refusal taken{ErrorCode::kAlreadyExists, "taken"};
  Hello hello = hello_of(1, 2);
  EXPECT_EQ(job_.admit({.hello = hello, .rank_taken = taken}, nullptr).error().message, "taken");
  hello.world_size = 3;  // it learns which job there is
  EXPECT_EQ(job_.admit({.hello = hello, .rank_taken = taken}, nullptr).error().code,
            ErrorCode::kUnavailable);
}

TEST_F(CurrentJobTest, TellsItsDepth) {
  EXPECT_EQ(job_.depth().ranks, 0);
  const std::uint64_t job = begin(2);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 2, 3)));
  join(1, 0);
  const CurrentJob::Depth depth = job_.depth();
  EXPECT_EQ(depth.ranks, 2);
  EXPECT_EQ(depth.present, 1);
  EXPECT_EQ(depth.queue.planned, 6U);
}

TEST_F(CurrentJobTest, DrainingEndsPlanningAndFinishesWhatIsBegun) {
  const std::uint64_t job = begin(1);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 1, 1)));
  ASSERT_TRUE(job_.push(job, make_step(0, 1, 1, 1)));
  join(0, 1);
  EXPECT_EQ(next_rank(job), 0);
  job_.drain();
  EXPECT_TRUE(job_.draining());
  EXPECT_EQ(job_.drained_at(), (Position{0, 1, 0}));
  EXPECT_EQ(job_.wait_for_room(job, {}).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(job_.push(job, make_step(0, 2, 1, 1)).error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(std::holds_alternative<CurrentJob::NothingToSend>(next(job).value()));
  EXPECT_EQ(job_.unfinished().present, (std::vector<std::int32_t>{0}));
  job_.acknowledge(0, {0, 0, 0});
  EXPECT_TRUE(job_.unfinished().present.empty());
  EXPECT_TRUE(std::holds_alternative<CurrentJob::Finished>(next(job).value()));
  EXPECT_EQ(job_.begin(Hello{}, true).error().code, ErrorCode::kDraining);
}

TEST_F(CurrentJobTest, DrainingEndsWhenNobodyIsLeft) {
  CurrentJob abandoned({JoinRequirements{options_}, 2, clock_.clock()});
  Hello hello;
  hello.world_size = 1;
  const std::uint64_t other = abandoned.begin(hello, true).value().id;
  ASSERT_TRUE(abandoned.push(other, make_step(0, 0, 1, 1)));
  abandoned.join({0, false, {}, 1});
  abandoned.grant(0, 1);
  ASSERT_TRUE(abandoned.next(other, 0s, {}).has_value());
  abandoned.drain();
  abandoned.leave(0);
  EXPECT_EQ(abandoned.unfinished().absent, (std::vector<std::int32_t>{0}));
  EXPECT_TRUE(std::holds_alternative<CurrentJob::Finished>(abandoned.next(other, 0s, {}).value()));
}

TEST_F(CurrentJobTest, DrainingWithoutAJobEndsTheWaitForOne) {
  job_.drain();
  EXPECT_EQ(job_.wait_for_job({}).error().code(), ErrorCode::kCancelled);
  EXPECT_FALSE(job_.drained_at().has_value());
}

TEST_F(CurrentJobTest, NamesTheRankThatIsMissingAtTheEndWhenItHasBeenAwayForLong) {
  const std::uint64_t job = begin(2);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 2, 1)));
  ASSERT_TRUE(job_.push(job, end_of_epoch(0, true)));
  clock_.advance(9s);
  EXPECT_FALSE(job_.missing_rank(job, 2s).has_value());  // nobody has come yet
  join(0, 1);
  join(1, 1);
  while (next_rank(job)) {
  }
  job_.leave(0);
  job_.leave(1);
  clock_.advance(2s);
  EXPECT_FALSE(job_.missing_rank(job, 2s).has_value());  // another job may begin
  join(1, 1);
  job_.acknowledge(1, {0, 0, 0});
  while (next_rank(job)) {
  }
  EXPECT_EQ(job_.missing_rank(job, 2s), 0);
  join(0, 0);
  job_.leave(0);
  EXPECT_FALSE(job_.missing_rank(job, 2s).has_value());  // it may come back
}

// A trainer that ends without closing its loader may not be told the end.
TEST_F(CurrentJobTest, EndsWithoutALostRankThatHasTrainedOnEverything) {
  const std::uint64_t job = begin(2);
  ASSERT_TRUE(job_.push(job, make_step(0, 0, 2, 1)));
  join(0, 1);
  join(1, 1);
  while (next_rank(job)) {
  }
  job_.acknowledge(0, {0, 0, 0});
  job_.acknowledge(1, {0, 0, 0});
  job_.leave(0, true);
  ASSERT_TRUE(job_.push(job, end_of_epoch(0, true)));
  while (next_rank(job)) {
  }
  clock_.advance(1s);
  EXPECT_FALSE(job_.missing_rank(job, 2s).has_value());
  EXPECT_TRUE(std::holds_alternative<CurrentJob::NothingToSend>(next(job).value()));
  clock_.advance(1s);
  EXPECT_FALSE(job_.missing_rank(job, 2s).has_value());
  EXPECT_TRUE(std::holds_alternative<CurrentJob::Finished>(next(job).value()));
}

}  // namespace
}  // namespace isocost
