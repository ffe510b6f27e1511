#include "loader/node/internal/join.h"
#include "loader/node/internal/saved_state_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "tests/loader/node/node_support.h"
#include "tests/support/manual_clock.h"

namespace isocost {
namespace {

using std::chrono_literals::operator""s;
using testing::HasSubstr;

NodeOptions some_options() {
  NodeOptions options;
  options.data = "shards";
  return options;
}

Hello hello_of(std::int32_t rank, std::int32_t world_size = 0) {
  Hello hello;
  hello.rank = rank;
  hello.world_size = world_size;
  return hello;
}

Hello hello_from(std::int32_t rank, std::int32_t world_size, std::uint32_t epoch,
                 std::uint32_t step) {
  Hello hello = hello_of(rank, world_size);
  hello.has_start = true;
  hello.start.epoch = epoch;
  hello.start.step = step;
  return hello;
}

class JoinTest : public testing::Test {
 protected:
  tl::expected<JoinDecision, Refusal> evaluate(const Hello& hello, const Job* job,
                                               bool same_client = false) const {
    return evaluate_join(hello, same_client, job, requirements_);
  }

  NodeOptions options_ = some_options();
  JoinRequirements requirements_{options_};
};

TEST_F(JoinTest, TheFirstClientBeginsAJob) {
  EXPECT_EQ(evaluate(hello_of(0, 2), nullptr), JoinDecision::kNewJob);
  const auto job = new_job(hello_from(0, 2, 1, 5), nullptr, requirements_, {});
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->id(), 1U);
  EXPECT_EQ(job->ranks(), 2);
  EXPECT_EQ(job->start().epoch, 1U);
  EXPECT_EQ(job->start().step, 5U);
}

TEST_F(JoinTest, AClientWithoutARankIsAnsweredWhateverTheJob) {
  const Job job(1, 2, {0, 3, 1, {}}, {});
  for (const Job* present : {static_cast<const Job*>(nullptr), &job}) {
    EXPECT_EQ(evaluate(hello_of(kNoRank, 2), present), JoinDecision::kAnswer);
    EXPECT_EQ(evaluate(hello_from(kNoRank, 2, 0, 0), present), JoinDecision::kAnswer);
  }
  requirements_.receivers = 3;
  const auto refused = evaluate(hello_of(kNoRank, 2), &job);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("a client expects a world size of 2"));
  EXPECT_FALSE(evaluate(hello_of(kNoRank - 1, 3), &job).has_value());
}

// Taken for the only rank, it would train on everything alone.
TEST_F(JoinTest, AClientWithoutAWorldSizeIsNotTakenForTheOnlyRank) {
  for (const std::int32_t rank : {0, 1}) {
    const auto refused = evaluate(hello_of(rank), nullptr);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message,
                HasSubstr("rank " + std::to_string(rank) + " gives no world_size, and the node"));
  }
  EXPECT_EQ(evaluate(hello_of(kNoRank), nullptr), JoinDecision::kAnswer);
  EXPECT_EQ(evaluate(hello_of(0, 1), nullptr), JoinDecision::kNewJob);
  requirements_.receivers = 2;
  EXPECT_EQ(evaluate(hello_of(1), nullptr), JoinDecision::kNewJob);
}

TEST_F(JoinTest, AClientWithoutAWorldSizeAcceptsThatOfTheJobBefore) {
  const Job before(4, 3, {}, {});
  const Hello another = hello_from(0, 0, 2, 0);
  EXPECT_EQ(evaluate(another, &before), JoinDecision::kNewJob);
  const auto job = new_job(another, &before, requirements_, {});
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->id(), 5U);
  EXPECT_EQ(job->ranks(), 3);
}

TEST_F(JoinTest, ARankOutOfRangeIsToldOfTheWorldSize) {
  const Job job(1, 1, {}, {});
  const auto refused = evaluate(hello_of(1), &job);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("rank 1 is out of range: this node serves rank 0 "
                                                 "alone. Set world_size to the number of ranks"));
}

TEST_F(JoinTest, ClientsOfTheSameStartAndSizeJoin) {
  const Job job(1, 2, {}, {});
  EXPECT_EQ(evaluate(hello_of(1, 2), &job), JoinDecision::kJoin);
  EXPECT_EQ(evaluate(hello_of(1), &job), JoinDecision::kJoin);
  EXPECT_EQ(evaluate(hello_from(1, 2, 0, 0), &job), JoinDecision::kJoin);
}

TEST_F(JoinTest, AnotherStartOrSizeIsAnotherJob) {
  const Job job(1, 2, {}, {});
  EXPECT_EQ(evaluate(hello_of(1, 3), &job), JoinDecision::kNewJob);
  EXPECT_EQ(evaluate(hello_from(1, 2, 0, 4), &job), JoinDecision::kNewJob);
}

TEST_F(JoinTest, ARankThatWasServedBeginsAgainUnlessItReconnects) {
  Job job(1, 1, {}, {});
  job.queue().push(make_step(0, 0, 1, 1));
  job.join({0, false, {}, 1});
  job.queue().grant(0, 1);
  ASSERT_TRUE(job.queue().next().has_value());
  EXPECT_EQ(evaluate(hello_from(0, 1, 0, 0), &job), JoinDecision::kBeginAgain);
  EXPECT_EQ(evaluate(hello_from(0, 1, 0, 0), &job, true), JoinDecision::kJoin);
  EXPECT_EQ(evaluate(hello_of(0, 1), &job), JoinDecision::kJoin);
  Hello of_this_job = hello_from(0, 1, 0, 0);
  of_this_job.job = 1;
  EXPECT_EQ(evaluate(of_this_job, &job, true), JoinDecision::kJoin);
}

// It would miss what the other one has trained on, without a word.
TEST_F(JoinTest, AClientWhoseRankAnotherOneHasHadIsRefusedForGood) {
  const Job job(1, 1, {}, {});
  Hello hello = hello_of(0, 1);
  hello.job = 1;
  const auto decision = evaluate(hello, &job, false);
  ASSERT_FALSE(decision.has_value());
  EXPECT_EQ(decision.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(decision.error().message, HasSubstr("give each rank one process"));
}

TEST_F(JoinTest, ANewRunInsideAStepRepeatsTheStep) {
  Job job(3, 2, {0, 4, 2, {}}, {});
  job.queue().push(make_step(4, 2, 2, 2));
  job.queue().push(make_step(4, 3, 2, 2));
  for (const std::int32_t rank : {0, 1}) {
    job.join({rank, false, {}, 1});
    job.queue().grant(rank, 4);
  }
  while (job.queue().next()) {
  }
  EXPECT_EQ(evaluate(hello_of(0), &job), JoinDecision::kJoin) << "nothing was trained on";
  job.queue().acknowledge(0, {4, 3, 0});
  EXPECT_EQ(evaluate(hello_of(0), &job), JoinDecision::kJoinOrRepeatStep);
  EXPECT_EQ(evaluate(hello_of(1), &job), JoinDecision::kJoinOrRepeatStep) << "rank 0 is ahead";
  EXPECT_EQ(evaluate(hello_of(1), &job, true), JoinDecision::kJoin) << "it reconnects";
  const Job again = job.repeat_step({});
  EXPECT_EQ(again.asked_start(), job.start());
  EXPECT_EQ(again.repeat_step({}).asked_start(), job.start());
  EXPECT_EQ(again.id(), 4U);
  EXPECT_EQ(again.ranks(), 2);
  EXPECT_EQ(again.start(), (StartPoint{0, 4, 2, {}}));
  job.queue().acknowledge(0, {4, 3, 1});
  job.queue().acknowledge(1, {4, 3, 1});
  EXPECT_EQ(evaluate(hello_of(1), &job), JoinDecision::kJoin) << "every step is over";
}

// On a busy machine, a rank may first come when the others are through: repeating the step would
// then wait for them without end.
TEST_F(JoinTest, ALateRankJoinsARunWhoseOtherRanksAreThrough) {
  Job job(1, 3, {}, {});
  job.queue().push(make_step(0, 0, 3, 1));
  job.queue().push(end_of_epoch(0, true));
  for (const std::int32_t rank : {0, 1}) {
    job.join({rank, false, {}, 1});
    job.queue().grant(rank, 4);
  }
  while (job.queue().next()) {
  }
  for (const std::int32_t rank : {0, 1}) job.queue().acknowledge(rank, {0, 0, 0});
  job.leave(0, false, {});
  EXPECT_EQ(evaluate(hello_of(2), &job), JoinDecision::kJoin);
  EXPECT_EQ(evaluate(hello_of(0), &job), JoinDecision::kJoinOrRepeatStep) << "it had come before";
  job.leave(1, true, {});
  EXPECT_EQ(evaluate(hello_of(2), &job), JoinDecision::kJoin) << "it was sent the end";
}

TEST_F(JoinTest, ALateRankRepeatsTheStepThatAnotherLeft) {
  Job job(1, 2, {}, {});
  job.queue().push(make_step(0, 0, 2, 2));
  job.queue().push(end_of_epoch(0, true));
  job.join({0, false, {}, 1});
  job.queue().grant(0, 4);
  while (job.queue().next()) {
  }
  job.queue().acknowledge(0, {0, 0, 0});
  EXPECT_EQ(evaluate(hello_of(1), &job), JoinDecision::kJoin) << "rank 0 still trains";
  job.leave(0, false, {});
  EXPECT_EQ(evaluate(hello_of(1), &job), JoinDecision::kJoinOrRepeatStep);
}

TEST_F(JoinTest, AClientOfAnEarlierJobIsRefusedForGood) {
  const Job job(2, 1, {}, {});
  Hello hello = hello_of(0, 1);
  hello.job = 1;
  const auto decision = evaluate(hello, &job);
  ASSERT_FALSE(decision.has_value());
  EXPECT_EQ(decision.error().code, ErrorCode::kCancelled);
}

TEST_F(JoinTest, RanksOutOfRangeAreRefused) {
  const Job job(1, 2, {}, {});
  EXPECT_FALSE(evaluate(hello_of(2, 2), &job).has_value());
  EXPECT_FALSE(evaluate(hello_of(kNoRank - 1, 2), &job).has_value());
}

TEST_F(JoinTest, AStateOfAnotherOrderIsRefused) {
  requirements_.cursor = 5;
  Hello hello = hello_from(0, 1, 0, 3);
  hello.start.cursor = 6;
  const auto decision = evaluate(hello, nullptr);
  ASSERT_FALSE(decision.has_value());
  EXPECT_THAT(decision.error().message, HasSubstr("global_batch_size"));
  hello.start.cursor = 5;
  EXPECT_TRUE(evaluate(hello, nullptr).has_value());
}

TEST_F(JoinTest, LayoutsMustAgree) {
  Hello hello = hello_of(0, 1);
  hello.layout = 3;
  EXPECT_THAT(evaluate(hello, nullptr).error().message, HasSubstr("the node has none"));
  requirements_.layout = 4;
  EXPECT_THAT(evaluate(hello, nullptr).error().message, HasSubstr("another layout"));
  hello.layout = 0;
  EXPECT_TRUE(evaluate(hello, nullptr).has_value());  // without stages all receive the same
  requirements_.staged = true;
  EXPECT_THAT(evaluate(hello, nullptr).error().message, HasSubstr("has no layout"));
}

TEST_F(JoinTest, AStartMustExist) {
  EXPECT_FALSE(check_saved_position(hello_of(0), 1, 4).has_value());
  EXPECT_FALSE(
      check_saved_position(hello_from(0, 1, 0, 4), 1, 4).has_value());  // the end of the epoch
  EXPECT_TRUE(check_saved_position(hello_from(0, 1, 0, 5), 1, 4).has_value());
  EXPECT_FALSE(
      check_saved_position(hello_from(0, 1, 1, 0), 1, 4).has_value());  // the end of training
  EXPECT_TRUE(check_saved_position(hello_from(0, 1, 1, 1), 1, 4).has_value());
  EXPECT_TRUE(check_saved_position(hello_from(0, 1, 2, 0), 1, 4).has_value());
  EXPECT_FALSE(
      check_saved_position(hello_from(0, 1, 9, 4), 0, 4).has_value());  // epochs without end
}

TEST_F(JoinTest, AJobThatNeverTrainsIsADisagreementAfterTwoSeconds) {
  Job job(1, 2, {}, {});
  EXPECT_EQ(retry_later(hello_of(0, 3), job, 2s).code, ErrorCode::kUnavailable);
  EXPECT_EQ(retry_later(hello_of(0, 3), job, 3s).code, ErrorCode::kInvalidArgument);
  job.queue().push(make_step(0, 0, 2, 1));
  job.join({0, false, {}, 1});
  job.queue().grant(0, 1);
  ASSERT_TRUE(job.queue().next().has_value());
  job.queue().acknowledge(0, {0, 0, 0});
  EXPECT_EQ(retry_later(hello_of(0, 3), job, 3s).code, ErrorCode::kUnavailable);
}

TEST_F(JoinTest, ANumberOfRanksThatTheOptionsDoNotAllowIsAnError) {
  EXPECT_FALSE(new_job(hello_of(0, 1 << 30), nullptr, requirements_, {}).has_value());
}

TEST(Job, KnowsWhoJoinedAndLeft) {
  Job job(1, 2, {}, {});
  EXPECT_TRUE(job.all_left());
  EXPECT_FALSE(job.all_joined());
  job.join({0, false, {}, 11});
  job.join({7, false, {}, 12});  // a rank that the job does not have
  job.leave(7, false, {});
  EXPECT_EQ(job.queue().present(), 1);
  EXPECT_EQ(job.session(0), 11U);
  EXPECT_TRUE(job.joined_before(0));
  EXPECT_FALSE(job.joined_before(1));
  job.join({1, false, {}, 13});
  job.leave(0, false, {});
  EXPECT_TRUE(job.all_joined());
  EXPECT_FALSE(job.all_left());
  job.leave(1, false, {});
  EXPECT_TRUE(job.all_left());
}

TEST(Job, RemembersWhenADisputeBegan) {
  ManualClock clock;
  const MonotonicClock now = clock.clock();
  Job job(1, 1, {}, {});
  const MonotonicTime first = job.disputed_since(now());
  clock.advance(5s);
  EXPECT_EQ(job.disputed_since(now()), first);
}

}  // namespace
}  // namespace isocost
