#include "loader/node/internal/joined_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr auto kVision = CostModule::kVision;
constexpr auto kLlm = CostModule::kLlm;

ProfilePoint point(std::int64_t length, double forward_s, double backward_s,
                   std::int64_t sequences = 1) {
  return {.load = {sequences, sequences * length, sequences * length * length},
          .forward_s = forward_s,
          .backward_s = backward_s,
          .spread = 0.02};
}

// Encoder and LLM in one pipeline of two stages with two replicas and two tensor ranks.
class JoinedProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    Layout layout;
    layout.encoder_place = EncoderPlacement::kLlmRanks;
    layout.encoder = layout.llm = {2, 2, 2};
    layout.layers = {.encoder = {27, 0}, .llm = {7, 21}};
    layout.microbatches = 4;
    PlanOptions options;
    options.layout = std::make_shared<const Layout>(layout);
    options.layout_file = "layout.json";
    options.ranks = 2;
    options.microbatches = 4;
    layout_ = ServedLayout::create(options, present_, {}).value();
  }
  // The part of a receiver: stage 0 of replicas 0 and 1, then stage 1.
  ProfilePart part(std::size_t receiver, double llm_s, double vision_s = 0) {
    LayerProfile layers;
    layers.modules[2] = {1, {point(500, llm_s / 3, 2 * llm_s / 3), point(4000, llm_s, 2 * llm_s)}};
    if (receiver < 2) layers.modules[0] = {1, {point(1000, vision_s, 2 * vision_s)}};
    return {&layout_->receivers()[receiver], layers};
  }
  std::vector<ProfilePart> parts() {
    return {part(0, 0.010, 0.002), part(1, 0.010, 0.002), part(2, 0.010), part(3, 0.010)};
  }
  std::string refusal(const std::vector<ProfilePart>& parts) {
    const auto joined = join_parts(present_, parts, {true, false, true});
    return joined ? "joined" : joined.error().message();
  }

  CostProfile present_ = CostProfile::stated_default();
  std::unique_ptr<const ServedLayout> layout_;
};

TEST_F(JoinedProfileTest, LayersBecomeTheWholeModuleOnOneRank) {
  const CostProfile joined = join_parts(present_, parts(), {true, false, true}).value();
  const Receiver& receiver = layout_->receivers()[0];
  // For a stage, the joined profile predicts the seconds of its layers.
  Load load;
  load[kLlm] = point(4000, 0, 0).load;
  load[kVision] = point(1000, 0, 0).load;
  const ModuleSeconds whole{joined.modules[0].points.at(0).seconds(), 0,
                            joined.modules[2].points.at(1).seconds()};
  const ModuleSeconds here = receiver.from_one_rank(whole, load);
  EXPECT_NEAR(here[0], 27 * 0.006, 1e-9);
  EXPECT_NEAR(here[2], 7 * 0.030, 1e-9);
  EXPECT_NEAR(joined.modules[2].points.at(1).backward_s,
              2 * joined.modules[2].points.at(1).forward_s, 1e-9);
  EXPECT_EQ(joined.modules[2].architecture, present_.modules[2].architecture);
  EXPECT_TRUE(CostProfile::parse(joined.to_json()));
}

TEST_F(JoinedProfileTest, SeveralLayersCountAsSoMany) {
  std::vector<ProfilePart> several = parts();
  for (ProfilePart& part : several) {
    part.layers.modules[2]->layers = 4;
    for (ProfilePoint& point : part.layers.modules[2]->points) {
      point.forward_s *= 4;
      point.backward_s *= 4;
    }
  }
  const CostProfile joined = join_parts(present_, several, {true, false, true}).value();
  const CostProfile single = join_parts(present_, parts(), {true, false, true}).value();
  EXPECT_NEAR(joined.modules[2].points.at(1).seconds() / single.modules[2].points.at(1).seconds(),
              1, 1e-9);
}

TEST_F(JoinedProfileTest, StagesCountByTheirLayersAndReplicasByTheirMedian) {
  const double equal =
      join_parts(present_, parts(), {true, false, true})->modules[2].points.at(0).seconds();
  std::vector<ProfilePart> slow = parts();
  slow[2] = part(2, 0.020);
  slow[3] = part(3, 0.020);  // both replicas of the stage with 21 layers and the head
  const double head_share = layout_->receivers()[2].work.shares[2];
  const double joined =
      join_parts(present_, slow, {true, false, true})->modules[2].points.at(0).seconds();
  EXPECT_NEAR(joined / equal, 1 + head_share, 0.05);
}

TEST_F(JoinedProfileTest, LoadsThatOnlySomeMeasuredAreLeftOut) {
  std::vector<ProfilePart> more = parts();
  more[1].layers.modules[2]->points.push_back(point(2000, 0.005, 0.01));
  const CostProfile joined = join_parts(present_, more, {true, false, true}).value();
  EXPECT_EQ(joined.modules[2].points.size(), 2U);
}

TEST_F(JoinedProfileTest, AModuleThatNobodyMeasuredKeepsItsProfileUnlessItIsNeeded) {
  std::vector<ProfilePart> without = parts();
  without[0].layers.modules[0] = without[1].layers.modules[0] = std::nullopt;
  const auto joined = join_parts(present_, without, {false, false, true});
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->modules[0].coefficients, present_.modules[0].coefficients);
  EXPECT_THAT(refusal(without),
              HasSubstr("the trainer at llm, data 0, stage 0, tensor 0 measured no layer "
                        "of vision, of which its stage has layers: give vision="));
}

TEST_F(JoinedProfileTest, PartsThatDoNotFitTheirStageAreRefused) {
  std::vector<ProfilePart> other = parts();
  other[1].layers.modules[0] = std::nullopt;
  EXPECT_THAT(refusal(other),
              HasSubstr("llm, data 1, stage 0, tensor 0 measured no layer of vision"));
  other = parts();
  other[3].layers.modules[0] = other[0].layers.modules[0];
  EXPECT_THAT(refusal(other),
              HasSubstr("llm, data 1, stage 1, tensor 0 measured layers of vision, of which "
                        "its stage has none"));
}

TEST_F(JoinedProfileTest, DisagreementsAreNamed) {
  std::vector<ProfilePart> other = parts();
  other[2].layers.modules[2]->points.pop_back();
  EXPECT_THAT(
      refusal(other),
      HasSubstr("measured llm with sequences of 500 to 4000 in microbatches of up to 4000, "
                "and the trainer at llm, data 0, stage 1, tensor 0 with sequences of 500 to 500"));
  other = parts();
  for (ProfilePoint& point : other[3].layers.modules[2]->points) point.backward_s = 0;
  EXPECT_THAT(refusal(other),
              HasSubstr("llm, data 0, stage 0, tensor 0 measured a backward pass of llm, and "
                        "the trainer at llm, data 1, stage 1, tensor 0 none"));
  other = parts();
  other[3] = part(3, 0.070);
  EXPECT_THAT(refusal(other),
              HasSubstr("a layer of llm takes 7.1 times as long for the trainer at "
                        "llm, data 1, stage 1, tensor 0 as for the trainer at llm, data 0"));
}

TEST_F(JoinedProfileTest, AStageThatRanOutOfMemoryIsNamed) {
  auto all = parts();
  auto& layers = all[3].layers.modules[2];
  layers->points.pop_back();
  layers->out_of_memory = {1, 4000, 16'000'000};
  EXPECT_THAT(refusal(all), HasSubstr("the trainer at llm, data 1, stage 1, tensor 0 ran out of "
                                      "memory: let all stages measure smaller microbatches"));
  layers->out_of_memory = {};
  EXPECT_THAT(refusal(all), HasSubstr("give all stages the same loads"));
}

TEST_F(JoinedProfileTest, MemoryStaysThatOfTheWholeModule) {
  ModuleProfile& llm = present_.modules[2];
  llm.points = {point(500, 1, 2), point(4000, 8, 16)};
  llm.points[0].peak_bytes = 1'000'000;
  llm.points[1].peak_bytes = 8'000'000;
  llm.out_of_memory = point(8000, 0, 0).load;
  CostProfile joined = join_parts(present_, parts(), {true, false, true}).value();
  EXPECT_NEAR(static_cast<double>(joined.modules[2].points.at(1).peak_bytes), 8e6, 1e4);
  EXPECT_EQ(joined.modules[2].out_of_memory, llm.out_of_memory);
  llm.out_of_memory = point(2000, 0, 0).load;  // layers fit where the module did not
  joined = join_parts(present_, parts(), {true, false, true}).value();
  EXPECT_EQ(joined.modules[2].out_of_memory, ModuleLoad{});
  EXPECT_TRUE(CostProfile::parse(joined.to_json()));
}

}  // namespace
}  // namespace isocost
