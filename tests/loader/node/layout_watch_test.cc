#include "loader/node/internal/layout_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "balancer/layout/layout_model.h"
#include "base/random.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::size_t kSamples = 32;

// Eight GPUs whose pipeline is far too deep for the data: most of a step is spent filling it.
Layout deep_layout() {
  Layout layout;
  layout.encoder_place = EncoderPlacement::kLlmRanks;
  layout.encoder = layout.llm = {.tensor = 1, .pipeline = 8, .data = 1};
  layout.microbatches = 2;
  return layout;
}

class LayoutWatchTest : public testing::Test {
 protected:
  LayoutWatchTest() {
    options_.data = "data/my shards";
    options_.plan.global_batch_size = kSamples;
    options_.cost_model.profile = std::make_shared<CostProfile>(CostProfile::stated_default());
  }

  // Serves a layout with the caps that `isocost plan --gpu-memory 80GiB` writes.
  void serve(Layout layout) {
    const JobModel job;
    const SampleCost mean{.encoder_s = 1, .llm_s = 2, .encoder_units = 1000, .llm_units = 500};
    layout.layers = layer_cut(job, layout, mean);
    layout.activation_caps =
        activation_caps(job, state_memory(job, layout, make_pipeline(job, layout, mean).value()),
                        LayoutSearchOptions{}.usable_memory);
    serve_as_it_is(layout);
  }
  void serve_as_it_is(const Layout& layout) {
    options_.plan.ranks = static_cast<std::int64_t>(layout.llm.data);
    options_.plan.microbatches = static_cast<std::int64_t>(layout.microbatches);
    options_.plan.layout = std::make_shared<Layout>(layout);
    layout_ = ServedLayout::create(options_.plan, *options_.cost_model.profile, {}).value();
    watch_ = std::make_unique<LayoutWatch>(layout_.get(), options_, log_.sink());
  }

  void train(const CostModel& model, std::uint64_t steps, std::int64_t scale = 1) {
    for (std::uint64_t i = 0; i < steps; ++i) {
      std::vector<Load> loads;
      for (std::size_t n = i % (bad_ + 1); n < kSamples; ++n) {
        const auto patches = static_cast<std::int64_t>(512 * (1 + random_.below(4)));
        loads.push_back(load_of_counts(patches, scale * (patches / 4 + 200)));
      }
      watch_->observe(model, loads);
    }
  }
  // Waits until as many estimates were logged.
  bool logged(std::size_t lines) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (log_.lines().size() < lines) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  std::size_t bad_ = 0;  // most bad samples of a step
  NodeOptions options_;
  LogLines log_;
  Random random_{7};
  CostModel model_{CostProfile::stated_default(), {}};
  std::unique_ptr<const ServedLayout> layout_;
  std::unique_ptr<LayoutWatch> watch_;
};

TEST_F(LayoutWatchTest, TellsWhichCommandFindsABetterLayout) {
  serve(deep_layout());
  train(model_, LayoutWatch::kPeriod - 1);
  EXPECT_EQ(watch_->gain(), std::nullopt);
  EXPECT_THAT(log_.lines(), IsEmpty());
  train(model_, 1);
  ASSERT_TRUE(logged(1));
  EXPECT_GT(watch_->gain(), 0.1);
  EXPECT_THAT(log_.lines(),
              ElementsAre(AllOf(
                  HasSubstr("another layout would now be "),
                  HasSubstr("faster (simulated on the last 4 steps): "),
                  HasSubstr("isocost plan --gpus 8 --gpu-memory 80GiB --data 'data/my shards' "
                            "--global-batch-size 32"),
                  Not(HasSubstr("profile.json")))));
}

TEST_F(LayoutWatchTest, StepsWithBadSamplesCount) {
  bad_ = 2;
  serve(deep_layout());
  train(model_, LayoutWatch::kPeriod);
  ASSERT_TRUE(logged(1));
  EXPECT_GT(watch_->gain(), 0.1);
}

TEST_F(LayoutWatchTest, EstimatesAgainOnceDataChange) {
  serve(deep_layout());
  train(model_, LayoutWatch::kPeriod);
  ASSERT_TRUE(logged(1));
  train(model_, 4 * LayoutWatch::kPeriod);  // the same data
  train(model_, LayoutWatch::kPeriod, 3);   // sequences three times as long
  ASSERT_TRUE(logged(2));
  EXPECT_EQ(log_.lines().size(), 2U);
}

// The profile exists in the node alone, so the command names where it can be read.
TEST_F(LayoutWatchTest, NamesTheAdoptedProfile) {
  serve(deep_layout());
  options_.cost_model.profile_file = "old.json";
  CostProfile slower = CostProfile::stated_default();
  slower.modules.at(static_cast<std::size_t>(CostModule::kLlm)).coefficients.per_unit *= 2;
  train(CostModel(slower, {}), LayoutWatch::kPeriod);
  ASSERT_TRUE(logged(1));
  EXPECT_THAT(log_.lines(),
              ElementsAre(AllOf(HasSubstr("--profile profile.json"), Not(HasSubstr("old.json")),
                                HasSubstr("the model has changed"), HasSubstr("/profile.json"))));
}

// The command would otherwise measure the model, or plan by the built-in profile.
TEST_F(LayoutWatchTest, NamesAProfileThatIsNoFile) {
  serve(deep_layout());
  options_.decode.recipe = ModelRecipeOptions{.directory = "my model"};
  train(model_, LayoutWatch::kPeriod);
  ASSERT_TRUE(logged(1));
  EXPECT_THAT(
      log_.lines(),
      ElementsAre(AllOf(HasSubstr("--model 'my model'"), HasSubstr("--profile profile.json"),
                        Not(HasSubstr("has changed")), HasSubstr("/profile.json"))));
}

TEST_F(LayoutWatchTest, TheCommandPlansTheSameSamples) {
  serve(deep_layout());
  options_.cost_model.profile_file = "my profile.json";
  options_.decode.reading.ignore_parts = "jxl,seg.png";
  options_.decode.reading.text = "json[caption]";
  options_.decode.reading.weight_key = "it's";
  options_.decode.recipe = Native28Options{.max_image_patches = 512, .video_fps = 2.5};
  train(model_, LayoutWatch::kPeriod);
  ASSERT_TRUE(logged(1));
  EXPECT_THAT(log_.lines(),
              ElementsAre(HasSubstr("--data 'data/my shards' --ignore-parts jxl,seg.png "
                                    "--weight-key 'it'\\''s' --text 'json[caption]' "
                                    "--max-image-patches 512 --video-fps 2.5 "
                                    "--global-batch-size 32 --output better_layout.json "
                                    "--profile 'my profile.json'")));
}

// Another layout might not hold a step: the search knows no such limits.
TEST_F(LayoutWatchTest, EstimatesNothingWithLimitsOfAMicrobatch) {
  options_.plan.max_tokens = 1'000'000;
  serve(deep_layout());
  train(model_, 2 * LayoutWatch::kPeriod);
  watch_.reset();  // would wait for a search
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(LayoutWatchTest, LooksForNoLayoutOfExperts) {
  CostProfile with_experts = CostProfile::stated_default();
  auto& llm = with_experts.modules.at(static_cast<std::size_t>(CostModule::kLlm)).architecture;
  llm->experts = 8;
  options_.cost_model.profile = std::make_shared<CostProfile>(with_experts);
  serve(deep_layout());
  EXPECT_THAT(layout_->warnings(), Contains(HasSubstr("layers with experts")));
  train(CostModel(with_experts, {}), 2 * LayoutWatch::kPeriod);
  watch_.reset();  // would wait for a search
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(LayoutWatchTest, SaysNothingOfAGoodLayout) {
  Layout good;
  good.encoder_place = EncoderPlacement::kLlmRanks;
  good.encoder = good.llm = {.tensor = 2, .pipeline = 1, .data = 4};
  good.microbatches = 2;
  serve(good);
  train(model_, LayoutWatch::kPeriod);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!watch_->gain() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(watch_->gain().has_value());
  EXPECT_LT(*watch_->gain(), LayoutWatch::kWorthTelling);
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(LayoutWatchTest, EstimatesNothingWithoutTheMemoryOfGpus) {
  serve_as_it_is(deep_layout());
  train(model_, 2 * LayoutWatch::kPeriod);
  watch_.reset();  // would wait for a search
  EXPECT_THAT(log_.lines(), IsEmpty());
}

// A node that ends does not wait for the search.
TEST_F(LayoutWatchTest, EndsASearchWithTheNode) {
  serve(deep_layout());
  train(model_, LayoutWatch::kPeriod);
  watch_.reset();
  EXPECT_LE(log_.lines().size(), 1U);
}

TEST_F(LayoutWatchTest, DoesNothingWithoutALayout) {
  watch_ = std::make_unique<LayoutWatch>(nullptr, options_, log_.sink());
  train(model_, 2 * LayoutWatch::kPeriod);
  EXPECT_EQ(watch_->gain(), std::nullopt);
}

}  // namespace
}  // namespace isocost
