#include "loader/node/internal/microbatch_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TensorSpec patches(std::int64_t rows) { return {"vision.patches", DType::kUInt8, {rows, 588}}; }
TensorSpec ids(std::int64_t rows) { return {"llm.input_ids", DType::kInt64, {rows}}; }
TensorSpec labels(std::int64_t rows) { return {"llm.labels", DType::kInt64, {rows}}; }

// A picture with text, a text, and a repetition of the text without weight, on one rank.
class MicrobatchHeaderTest : public testing::Test {
 protected:
  MicrobatchHeaderTest() {
    step_.epoch = 1;
    step_.step = 7;
    step_.samples.resize(2);
    StepSample& picture = step_.samples[0];
    picture.id = 40;
    picture.key = "a.tar/picture";
    picture.json = R"({"text": "hello"})";
    picture.parts = {{Modality::kImage, 2, 4, 1}};
    picture.specs = {patches(8), ids(20), labels(20)};
    picture.load.label_tokens = 19;
    StepSample& text = step_.samples[1];
    text.id = 41;
    text.key = "a.tar/text";
    text.parts = {{Modality::kText}};
    text.specs = {ids(5), labels(5)};
    text.load.label_tokens = 4;
    step_.plan.microbatches = 2;
    step_.plan.global_label_tokens = 23;
    step_.plan.hash = 99;
    step_.plan.bins.resize(2);
    PlannedMicrobatch& first = step_.plan.bins[0];
    first.samples = {{1, 1.0F}, {0, 1.0F}};
    first.load[CostModule::kLlm].add_sequence(25);
    first.predicted = {0.5, 0, 2};
    step_.plan.bins[1].samples = {{1, 0.0F}};
  }

  // The step is one of a layout: an encoder rank and two LLM stages.
  void use_layout() {
    receivers_[0].module = LayoutModule::kEncoder;
    receivers_[0].work = {.embeds_media = true, .shares = {1, 1, 0}};
    receivers_[1].stage = 0;
    receivers_[1].work = {.embeds_tokens = true, .shares = {0, 0, 0.5}};
    receivers_[2].stage = 1;
    receivers_[2].work = {.predicts = true, .shares = {0, 0, 0.5}};
    step_.plan.layout_receivers = receivers_;
    step_.plan.encoder.resize(1);
    step_.plan.encoder[0].resize(1);
    step_.plan.encoder[0][0].samples = {{0, 1.0F}};
    step_.plan.encoder[0][0].routes = {{CostModule::kVision, 0, 0, 8, 0, 0, 0}};
  }

  static std::vector<std::string> names(const std::vector<TensorSpec>& specs) {
    std::vector<std::string> all;
    for (const TensorSpec& spec : specs) all.push_back(spec.name);
    return all;
  }

  SealedStep step_;
  std::array<Receiver, 3> receivers_;
};

TEST_F(MicrobatchHeaderTest, DescribesTheMicrobatchToARankWithoutALayout) {
  const MicrobatchHeader header = header_of(step_, 0, 0);
  EXPECT_EQ(header.position, (Position{1, 7, 0}));
  EXPECT_EQ(header.microbatches, 2U);
  EXPECT_EQ(header.global_label_tokens, 23U);
  EXPECT_EQ(header.plan_hash, 99U);
  EXPECT_EQ(header.predicted_seconds, (ModuleSeconds{0.5, 0, 2}));
  EXPECT_EQ(header.load, step_.plan.bins[0].load);
  const StepSample& picture = step_.samples[0];
  const StepSample& text = step_.samples[1];
  EXPECT_THAT(header.samples,
              ElementsAre(SampleEntry{41, 1.0F, 4, text.key, "", text.parts},
                          SampleEntry{40, 1.0F, 19, picture.key, picture.json, picture.parts}));
}

TEST_F(MicrobatchHeaderTest, TensorsHoldTheRowsOfAllSamplesInTheOrderOfTheirAppearance) {
  const MicrobatchHeader header = header_of(step_, 0, 0);
  EXPECT_THAT(names(header.tensors), ElementsAre("llm.input_ids", "llm.labels", "vision.patches"));
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(25));
  EXPECT_THAT(header.tensors[2].shape, ElementsAre(8, 588));
  EXPECT_THAT(header.rows, ElementsAre(5, 5, 0, 20, 20, 8));
}

TEST_F(MicrobatchHeaderTest, ARepeatHasNoWeight) {
  const MicrobatchHeader header = header_of(step_, 0, 1);
  ASSERT_EQ(header.samples.size(), 1U);
  EXPECT_EQ(header.samples[0].weight, 0);
  EXPECT_TRUE(header.last_of_step());
}

TEST_F(MicrobatchHeaderTest, DummiesFollowTheSamples) {
  StepSample dummy;
  dummy.id = SampleEntry::kDummy;
  dummy.parts = {{Modality::kImage, 2, 2, 1}};
  dummy.specs = {patches(4), ids(1), labels(1)};
  step_.dummies = {dummy};
  step_.plan.dummies = {{Modality::kImage, {}}};
  step_.plan.bins[1].dummies = {0};
  const MicrobatchHeader header = header_of(step_, 0, 1);
  ASSERT_EQ(header.samples.size(), 2U);
  EXPECT_EQ(header.samples[1].id, SampleEntry::kDummy);
  EXPECT_EQ(header.samples[1].weight, 0);
  EXPECT_EQ(header.samples[1].key, "");
  EXPECT_EQ(header.samples[1].parts, dummy.parts);
  EXPECT_THAT(names(header.tensors), ElementsAre("llm.input_ids", "llm.labels", "vision.patches"));
  EXPECT_THAT(header.rows, ElementsAre(5, 5, 0, 1, 1, 4));
  EXPECT_EQ(header_of(step_, 0, 0).samples.size(), 2U) << "it is in the other one alone";
}

TEST_F(MicrobatchHeaderTest, TheLastMicrobatchOfTheLastStepEndsTheEpoch) {
  EXPECT_FALSE(header_of(step_, 0, 1).last_of_epoch());
  step_.ends_epoch = true;
  EXPECT_FALSE(header_of(step_, 0, 0).last_of_epoch());
  EXPECT_TRUE(header_of(step_, 0, 1).last_of_epoch());
}

TEST_F(MicrobatchHeaderTest, PredictionsAreTheReceiversOwn) {
  step_.plan.slowdowns = {1.5};
  EXPECT_EQ(header_of(step_, 0, 0).predicted_seconds, (ModuleSeconds{0.75, 0, 3}));
}

TEST_F(MicrobatchHeaderTest, RequestsAndStatesGoWithTheFirstMicrobatch) {
  step_.plan.microbatches = 1;  // two ranks of one microbatch
  step_.profile_budget_s = 0.5;
  step_.cost_model_state = "state";
  EXPECT_EQ(header_of(step_, 0, 0).profile_budget_s, 0.5);
  EXPECT_EQ(header_of(step_, 1, 0).profile_budget_s, 0.5);
  EXPECT_EQ(header_of(step_, 0, 0).cost_model_state, "state");
  EXPECT_EQ(header_of(step_, 1, 0).cost_model_state, "state");
  step_.plan.microbatches = 2;  // one rank of two
  EXPECT_EQ(header_of(step_, 0, 1).profile_budget_s, 0);
  EXPECT_EQ(header_of(step_, 0, 1).cost_model_state, "");
}

TEST_F(MicrobatchHeaderTest, AStageIsToldAboutTheTensorsThatItReads) {
  use_layout();
  const MicrobatchHeader encoder = header_of(step_, 0, 0);
  EXPECT_EQ(encoder.microbatches, 1U);
  EXPECT_THAT(names(encoder.tensors), ElementsAre("vision.patches"));
  EXPECT_EQ(encoder.routes, step_.plan.encoder[0][0].routes);
  EXPECT_THAT(names(header_of(step_, 1, 0).tensors), ElementsAre("llm.input_ids"));
  EXPECT_THAT(names(header_of(step_, 2, 0).tensors), ElementsAre("llm.labels"));
}

TEST_F(MicrobatchHeaderTest, JsonAndPartsGoToStagesWithAUseForThem) {
  use_layout();
  const StepSample& picture = step_.samples[0];
  const SampleEntry encoder = header_of(step_, 0, 0).samples[0];
  EXPECT_EQ(encoder.key, picture.key);
  EXPECT_EQ(encoder.json, "");
  EXPECT_EQ(encoder.parts, picture.parts);
  const SampleEntry first = header_of(step_, 1, 0).samples[1];
  EXPECT_EQ(first.json, picture.json);
  EXPECT_EQ(first.parts, picture.parts);
  const SampleEntry last = header_of(step_, 2, 0).samples[1];
  EXPECT_EQ(last.key, picture.key);
  EXPECT_EQ(last.json, picture.json);
  EXPECT_THAT(last.parts, IsEmpty());
}

TEST_F(MicrobatchHeaderTest, EveryStageOfAModuleReadsItsLengths) {
  const auto readers = [this](const char* name) {
    const std::vector<NamedTensor> tensors = {{name, {}}};
    std::vector<std::size_t> all;
    for (std::size_t r = 0; r < receivers_.size(); ++r) {
      if (!consumed(step_.plan, r, tensors).empty()) all.push_back(r);
    }
    return all;
  };
  EXPECT_THAT(readers("anything"), ElementsAre(0, 1, 2)) << "without a layout";
  use_layout();
  EXPECT_THAT(readers("vision.lengths"), ElementsAre(0));
  EXPECT_THAT(readers("llm.lengths"), ElementsAre(1, 2));
  EXPECT_THAT(readers("llm.position_ids"), ElementsAre(1));
  EXPECT_THAT(readers("llm.loss_weights"), ElementsAre(2));
  EXPECT_THAT(readers("llm.anything"), IsEmpty());
}

TEST_F(MicrobatchHeaderTest, WhatAReceiverConsumesIsNotCopied) {
  use_layout();
  BufferPool pool;
  std::vector<NamedTensor> tensors;
  for (const char* name : {"llm.input_ids", "llm.labels"}) {
    tensors.push_back({name, make_tensor(pool.allocate(32), DType::kInt64, {4}).value()});
  }
  const std::vector<NamedTensor> read = consumed(step_.plan, 2, tensors);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "llm.labels");
  EXPECT_EQ(read[0].tensor.bytes().data(), tensors[1].tensor.bytes().data());
}

TEST_F(MicrobatchHeaderTest, AllReceiversAreToldAlikeWhetherSecondsAreWanted) {
  use_layout();
  for (const bool wanted : {true, false}) {
    step_.seconds_wanted = wanted;
    for (const std::size_t receiver : {0U, 1U, 2U}) {
      EXPECT_EQ(header_of(step_, receiver, 0).seconds_wanted, wanted) << receiver;
    }
    EXPECT_EQ(header_of(step_, 1, 1).seconds_wanted, wanted);
  }
}

}  // namespace
}  // namespace isocost
