#include "trainer_adapter/trained_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kCursor = 5;

/// The microbatches of a rank, in order: `per_step` a step, `steps` an epoch.
class Rank {
 public:
  explicit Rank(std::uint32_t per_step, std::uint32_t steps = 100)
      : per_step_(per_step), steps_(steps) {}

  OrderedMicrobatch at(std::uint32_t number) const {
    const std::uint32_t step = number / per_step_;
    const Position position{step / steps_, step % steps_, number % per_step_};
    const bool last_of_step = position.microbatch + 1 == per_step_;
    return {position, last_of_step, last_of_step && position.step + 1 == steps_};
  }

 private:
  std::uint32_t per_step_;
  std::uint32_t steps_;
};

/// Returns epoch and step that the state names.
std::pair<std::uint32_t, std::uint32_t> place(const Result<StartPoint>& state) {
  return {state.value().epoch, state.value().step};
}
using Place = std::pair<std::uint32_t, std::uint32_t>;

TrainedSteps from_the_start() { return TrainedSteps({kCursor, 0, 0, "of the start"}); }

TEST(TrainedSteps, AFreshOneIsAtItsStart) {
  const TrainedSteps steps({kCursor, 2, 3, "of the start"});
  const StartPoint state = steps.state().value();
  EXPECT_EQ(state, (StartPoint{kCursor, 2, 3, "of the start"}));
}

TEST(TrainedSteps, AStepCountsFromItsLastMicrobatchOn) {
  TrainedSteps steps = from_the_start();
  const Rank rank(2, 2);
  const Place expected[] = {{0, 0}, {0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 1}};
  for (std::uint32_t i = 0; i < 6; ++i) {
    steps.hand_out(rank.at(i), {});
    ASSERT_TRUE(steps.train(rank.at(i)));
    EXPECT_EQ(place(steps.state()), expected[i]) << i;
  }
}

// Lightning looks one ahead, other loops further: what they hold ready is not trained.
TEST(TrainedSteps, WhatWasOnlyHandedOutIsNotTrained) {
  for (const std::uint32_t ahead : {1U, 2U, TrainedSteps::kMostAhead - 1}) {
    for (const std::uint32_t per_step : {1U, 3U}) {
      TrainedSteps steps = from_the_start();
      const Rank rank(per_step);
      for (std::uint32_t i = 0; i < ahead; ++i) steps.hand_out(rank.at(i), {});
      for (std::uint32_t i = 0; i < 30; ++i) {
        steps.hand_out(rank.at(i + ahead), {});
        ASSERT_TRUE(steps.train(rank.at(i)));
        EXPECT_EQ(place(steps.state()), Place(0, (i + 1) / per_step)) << ahead << " ahead, " << i;
      }
    }
  }
}

TEST(TrainedSteps, ALoopThatSaysNothingHasNoState) {
  TrainedSteps steps = from_the_start();
  const Rank rank(2);
  steps.hand_out(rank.at(0), {});
  EXPECT_EQ(place(steps.state()), Place(0, 0)) << "no step was handed out whole";
  steps.hand_out(rank.at(1), {});
  const auto state = steps.state();
  ASSERT_FALSE(state.has_value());
  EXPECT_EQ(state.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(state.error().message(), HasSubstr("epoch 0, step 0, microbatch 1 was handed out"));
}

TEST(TrainedSteps, ALoopThatStopsToSayItHasNoStateAfterAWhile) {
  TrainedSteps steps = from_the_start();
  const Rank rank(1);
  steps.hand_out(rank.at(0), {});
  ASSERT_TRUE(steps.train(rank.at(0)));
  for (std::uint32_t i = 1; i < TrainedSteps::kMostAhead; ++i) steps.hand_out(rank.at(i), {});
  EXPECT_EQ(place(steps.state()), Place(0, 1));
  steps.hand_out(rank.at(TrainedSteps::kMostAhead), {});
  EXPECT_THAT(steps.state().error().message(),
              HasSubstr("since epoch 0, step 0, microbatch 0, though epoch 0, step 8"));
  ASSERT_TRUE(steps.train(rank.at(TrainedSteps::kMostAhead)));
  EXPECT_EQ(place(steps.state()), Place(0, TrainedSteps::kMostAhead + 1));
}

TEST(TrainedSteps, AMicrobatchCountsWithALaterOne) {
  TrainedSteps steps = from_the_start();
  const Rank rank(2);
  for (std::uint32_t i = 0; i < 4; ++i) steps.hand_out(rank.at(i), {});
  ASSERT_TRUE(steps.train(rank.at(2)));
  EXPECT_EQ(place(steps.state()), Place(0, 1));
  ASSERT_TRUE(steps.train(rank.at(0))) << "late, and nothing new";
  EXPECT_EQ(place(steps.state()), Place(0, 1));
}

TEST(TrainedSteps, WhatWasNotHandedOutCannotBeTrained) {
  TrainedSteps steps = from_the_start();
  const Rank rank(1);
  EXPECT_THAT(steps.train(rank.at(0)).error().message(), HasSubstr("none was"));
  steps.hand_out(rank.at(0), {});
  EXPECT_EQ(steps.train(rank.at(1)).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(steps.state_after(rank.at(1)).error().message(),
              HasSubstr("the last is epoch 0, step 0, microbatch 0"));
}

TEST(TrainedSteps, AMicrobatchWhoseBodyThrewIsNotTrained) {
  TrainedSteps steps = from_the_start();
  const Rank rank(1);
  for (std::uint32_t i = 0; i < 2; ++i) {
    steps.hand_out(rank.at(i), {});
    ASSERT_TRUE(steps.train(rank.at(i)));
  }
  steps.revoke(rank.at(0).position);
  EXPECT_EQ(place(steps.state()), Place(0, 2)) << "it was not the last";
  steps.revoke(rank.at(1).position);
  EXPECT_EQ(place(steps.state()), Place(0, 1));
  ASSERT_TRUE(steps.train(rank.at(1))) << "it was tried again";
  EXPECT_EQ(place(steps.state()), Place(0, 2));
}

TEST(TrainedSteps, AnyMicrobatchThatWasHandedOutMayBeNamed) {
  TrainedSteps steps = from_the_start();
  const Rank rank(2, 2);
  for (std::uint32_t i = 0; i < 6; ++i) steps.hand_out(rank.at(i), {});
  EXPECT_EQ(place(steps.state_after(rank.at(0))), Place(0, 0));
  EXPECT_EQ(place(steps.state_after(rank.at(1))), Place(0, 1));
  EXPECT_EQ(place(steps.state_after(rank.at(3))), Place(1, 0));
}

// All samples of the epoch's further steps may be bad, so that no microbatch is its last.
TEST(TrainedSteps, AnEpochIsOverWithItsEndAndWhatCameBefore) {
  TrainedSteps steps = from_the_start();
  const Rank rank(1);
  for (std::uint32_t i = 0; i < 2; ++i) steps.hand_out(rank.at(i), {});
  steps.end_epoch(0);
  ASSERT_TRUE(steps.train(rank.at(0)));
  EXPECT_EQ(place(steps.state()), Place(0, 1)) << "the loop has looked ahead to the end";
  ASSERT_TRUE(steps.train(rank.at(1)));
  EXPECT_EQ(place(steps.state()), Place(1, 0));
  EXPECT_EQ(place(steps.state_after(rank.at(1))), Place(1, 0));
}

TEST(TrainedSteps, AnEpochOfWhichNothingCameIsOverWithItsEnd) {
  TrainedSteps steps({kCursor, 1, 7, {}});
  steps.end_epoch(1);
  EXPECT_EQ(place(steps.state()), Place(2, 0));
}

// Ranks that have looked ahead to different microbatches have the same state.
TEST(TrainedSteps, TheCostModelsStateIsThatOfWhatIsTrained) {
  TrainedSteps steps = from_the_start();
  const Rank rank(1);
  for (std::uint32_t i = 0; i < 20; ++i) {
    steps.hand_out(rank.at(i), i % 4 == 3 ? "of step " + std::to_string(i) : "");
    if (i < 2) continue;
    ASSERT_TRUE(steps.train(rank.at(i - 2)));
    const std::string expected =
        i < 5 ? "of the start" : "of step " + std::to_string((i - 1) / 4 * 4 - 1);
    EXPECT_EQ(steps.state().value().cost_model_state, expected) << i;
  }
  steps.revoke(rank.at(17).position);
  EXPECT_EQ(steps.state().value().cost_model_state, "of step 15");
}

}  // namespace
}  // namespace isocost
