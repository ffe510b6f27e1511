#include "balancer/layout/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "balancer/layout/layout_model.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// 4 encoder ranks, then 24 LLM ranks.
Layout own_ranks() {
  Layout layout;
  layout.encoder = {2, 1, 2};
  layout.llm = {2, 3, 4};
  layout.microbatches = 6;
  return layout;
}

Layout one_pipeline() {
  Layout layout;
  layout.encoder_place = EncoderPlacement::kLlmRanks;
  layout.encoder = layout.llm = {2, 2, 4};
  layout.microbatches = 4;
  return layout;
}

PipelineModel pipeline_of(const Layout& layout) {
  const JobModel job = JobModel::create(CostProfile::stated_default()).value();
  return make_pipeline(job, layout, {1, 2, 1000, 1000}).value();
}

TEST(Place, RanksRunThroughTensorThenDataThenStage) {
  const Layout layout = own_ranks();
  EXPECT_EQ(place_of(layout, 0).value(), (Place{LayoutModule::kEncoder, 0, 0, 0}));
  EXPECT_EQ(place_of(layout, 3).value(), (Place{LayoutModule::kEncoder, 1, 0, 1}));
  EXPECT_EQ(place_of(layout, 4).value(), (Place{LayoutModule::kLlm, 0, 0, 0}));
  EXPECT_EQ(place_of(layout, 4 + 2 * 4 + 3).value(), (Place{LayoutModule::kLlm, 1, 1, 1}));
  EXPECT_EQ(place_of(layout, 27).value().to_string(), "llm, data 3, stage 2, tensor 1");
  for (std::size_t rank = 0; rank < layout.ranks(); ++rank) {
    EXPECT_EQ(rank_of(layout, place_of(layout, rank).value()).value(), rank);
  }
  EXPECT_THAT(place_of(layout, 28).error().message(),
              HasSubstr("rank 28 has no place in a layout of 28 ranks"));
}

TEST(Place, TensorRanksShareAReceiver) {
  for (const Layout& layout : {own_ranks(), one_pipeline()}) {
    std::set<std::size_t> taken;
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank) {
      Place place = place_of(layout, rank).value();
      const std::size_t receiver = receiver_of(layout, place).value();
      taken.insert(receiver);
      place.tensor = 0;
      EXPECT_EQ(place_of_receiver(layout, receiver), place);
    }
    EXPECT_EQ(taken.size(), receivers(layout));
    EXPECT_EQ(*taken.rbegin(), receivers(layout) - 1);
  }
}

TEST(Place, IndicesOutsideTheLayoutAreNamed) {
  const Layout layout = own_ranks();
  EXPECT_THAT(rank_of(layout, {LayoutModule::kLlm, 4, 0, 0}).error().message(),
              HasSubstr("data is 0 to 3"));
  EXPECT_THAT(receiver_of(layout, {LayoutModule::kEncoder, 0, 1, 0}).error().message(),
              HasSubstr("stage is 0 to 0"));
  EXPECT_THAT(rank_of(layout, {LayoutModule::kLlm, 0, 0, 2}).error().message(),
              HasSubstr("tensor is 0 to 1"));
  EXPECT_THAT(rank_of(one_pipeline(), {LayoutModule::kEncoder, 0, 0, 0}).error().message(),
              HasSubstr("the encoder has no ranks of its own"));
}

TEST(Place, StagesOfOwnRanks) {
  const Layout layout = own_ranks();
  const PipelineModel pipeline = pipeline_of(layout);
  const auto at = [&](LayoutModule module, std::size_t stage) {
    return stage_work(layout, pipeline, {module, 0, stage, 0}).value();
  };
  EXPECT_EQ(at(LayoutModule::kEncoder, 0), (StageWork{true, false, false, {1, 1, 0}}));
  const StageWork first = at(LayoutModule::kLlm, 0);
  const StageWork middle = at(LayoutModule::kLlm, 1);
  const StageWork last = at(LayoutModule::kLlm, 2);
  EXPECT_TRUE(first.embeds_tokens && !first.embeds_media && !first.predicts);
  EXPECT_TRUE(!middle.embeds_tokens && !middle.embeds_media && !middle.predicts);
  EXPECT_TRUE(last.predicts && !last.embeds_tokens);
  EXPECT_NEAR(first.shares[2] + middle.shares[2] + last.shares[2], 1, 1e-12);
  EXPECT_EQ(middle.shares[0], 0);
}

TEST(Place, StagesOfOnePipelineFollowTheLayers) {
  Layout layout = one_pipeline();
  layout.layers = {.encoder = {27, 0}, .llm = {4, 24}};
  const auto at = [&](std::size_t stage) {
    return stage_work(layout, pipeline_of(layout), {LayoutModule::kLlm, 3, stage, 1}).value();
  };
  EXPECT_TRUE(at(0).embeds_media && at(0).embeds_tokens && !at(0).predicts);
  EXPECT_TRUE(!at(1).embeds_media && !at(1).embeds_tokens && at(1).predicts);
  EXPECT_EQ(at(1).shares[0], 0);
  // The first stage holds only the encoder, so tokens enter at the first stage of the LLM.
  layout.layers = {.encoder = {20, 7}, .llm = {0, 28}};
  EXPECT_TRUE(at(0).embeds_media && !at(0).embeds_tokens);
  EXPECT_TRUE(!at(1).embeds_media && at(1).embeds_tokens && at(1).predicts);
  EXPECT_NEAR(at(1).shares[1], 7.0 / 27, 1e-12);
}

TEST(Place, ChunksThatInterleave) {
  Layout layout = one_pipeline();
  layout.schedule = Schedule::kInterleaved1F1B;
  layout.chunks = 2;
  // Chunks 0 and 2 are on stage 0. The LLM begins in chunk 1, on the last stage.
  layout.layers = {.encoder = {20, 7, 0, 0}, .llm = {0, 8, 10, 10}};
  const auto at = [&](std::size_t stage) {
    return stage_work(layout, pipeline_of(layout), {LayoutModule::kLlm, 0, stage, 0}).value();
  };
  EXPECT_TRUE(at(0).embeds_media && !at(0).embeds_tokens && !at(0).predicts);
  EXPECT_TRUE(!at(1).embeds_media && at(1).embeds_tokens && at(1).predicts);
  EXPECT_GT(at(0).shares[2], 0.3);
}

}  // namespace
}  // namespace isocost
