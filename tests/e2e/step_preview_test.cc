// The samples that a preview names are those that a real node delivers.
#include "loader/node/step_preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "loader/config/option_table.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// Epoch and step; then sample, rank and microbatch.
using Places = std::map<std::pair<std::uint32_t, std::uint32_t>,
                        std::multiset<std::tuple<SampleId, std::size_t, std::uint32_t>>>;

Places delivered_places(const Delivered& delivered) {
  Places places;
  for (std::size_t rank = 0; rank < delivered.ranks.size(); ++rank) {
    for (const Received& received : delivered.ranks[rank]) {
      const Position& at = received.position;
      for (const SampleEntry& sample : received.samples) {
        if (sample.id == SampleEntry::kDummy || sample.weight == 0) continue;
        places[{at.epoch, at.step}].emplace(sample.id, rank, at.microbatch);
      }
    }
  }
  return places;
}

class StepPreviewTest : public LoopTest {
 protected:
  StepPreviewTest() { make_dataset(56); }

  NodeOptions of_mixture(const std::string& text) {
    const std::filesystem::path file = scratch() / "mixture.toml";
    std::ofstream(file) << text;
    NodeOptions defaults = options(2);
    defaults.data = file.string();
    defaults.plan.epochs = 1;
    auto made = make_options({}, std::move(defaults));
    EXPECT_TRUE(made) << made.error().message();
    return *std::move(made);
  }

  // Expects that a node delivers what the preview names, in every step.
  void expect_as_delivered(NodeOptions options) {
    options.cost_model.correct = false;
    const Places expected = delivered_places(run(options));
    ASSERT_GT(expected.size(), 2U);
    auto preview = StepPreview::open(options, {}, {});
    ASSERT_TRUE(preview) << preview.error().message();
    std::uint64_t steps = 0;
    for (std::uint64_t epoch = 0; epoch < static_cast<std::uint64_t>(options.plan.epochs);
         ++epoch) {
      steps += (*preview)->steps(epoch).value();
    }
    EXPECT_EQ(steps, expected.size());
    for (const auto& [at, samples] : expected) {
      const auto step = (*preview)->step(at.first, at.second);
      ASSERT_TRUE(step) << step.error().message();
      EXPECT_TRUE(step->planned);
      std::multiset<std::tuple<SampleId, std::size_t, std::uint32_t>> places;
      for (const PreviewedSample& sample : step->samples) {
        EXPECT_EQ(sample.bad, "");
        ASSERT_TRUE(sample.place) << sample.name;
        places.emplace(sample.id, sample.place->rank, sample.place->microbatch);
        EXPECT_GT(sample.load[CostModule::kLlm].units, 0) << sample.name;
      }
      EXPECT_EQ(places, samples) << at.first << ", " << at.second;
    }
  }

  static constexpr const char* kSources =
      "[[source]]\nname = \"b\"\npath = \"shards/*0.tar\"\nproportion = [[0, 1.0], [3, 5.0]]\n"
      "ramp = true\n"
      "[[source]]\nname = \"a\"\npath = [\"shards/*1.tar\", \"shards/*2.tar\"]\n"
      "proportion = 2.0\n";
};

TEST_F(StepPreviewTest, NamesWhatADataSetGives) {
  for (const std::uint64_t seed : {0, 7}) {
    NodeOptions given = options(2);
    given.plan.seed = seed;
    given.plan.epochs = 2;
    expect_as_delivered(given);
  }
}

TEST_F(StepPreviewTest, NamesWhatAMixtureGives) {
  for (const std::uint64_t seed : {1, 12345}) {
    NodeOptions given = of_mixture(std::string("steps = 9\nskip_steps = [\"2\"]\n") + kSources);
    given.plan.seed = seed;
    expect_as_delivered(given);
  }
}

TEST_F(StepPreviewTest, NamesWhatBlocksGive) {
  NodeOptions given = options(2);
  given.plan.epochs = 2;
  given.plan.shuffle = ShufflePolicy::kBlocks;
  given.plan.shuffle_shards = 2;  // of four
  expect_as_delivered(given);
  given.plan.lookahead = 3;
  given.plan.tail = TailPolicy::kCarry;
  expect_as_delivered(given);
  NodeOptions mixed = of_mixture(std::string("steps = 9\n") + kSources);
  mixed.plan.shuffle = ShufflePolicy::kBlocks;
  mixed.plan.shuffle_shards = 1;
  expect_as_delivered(mixed);
}

TEST_F(StepPreviewTest, NamesWhatLookAheadComposes) {
  NodeOptions given = of_mixture(std::string("steps = 8\n") + kSources);
  given.plan.lookahead = 4;
  expect_as_delivered(given);
}

TEST_F(StepPreviewTest, TellsBadSamplesAndHasNoPlacesWithoutRanks) {
  NodeOptions given = options(0);
  given.plan.max_tokens = 0;
  given.plan.ranks = 0;
  given.decode.memory = std::int64_t{1} << 20;  // too little for some pictures
  auto preview = StepPreview::open(given, {}, {});
  ASSERT_TRUE(preview) << preview.error().message();
  std::size_t bad = 0;
  const std::uint64_t steps = (*preview)->steps(0).value();
  for (std::uint64_t s = 0; s < steps; ++s) {
    const PreviewedStep step = (*preview)->step(0, s).value();
    EXPECT_FALSE(step.planned);
    for (const PreviewedSample& sample : step.samples) {
      EXPECT_FALSE(sample.place);
      if (sample.bad.empty()) continue;
      ++bad;
      EXPECT_THAT(sample.bad, HasSubstr("memory"));
      EXPECT_EQ(sample.load, Load{});
    }
  }
  EXPECT_GT(bad, 0U);
}

TEST_F(StepPreviewTest, RefusesStepsThatDoNotExist) {
  NodeOptions given = of_mixture(std::string("steps = 8\n") + kSources);
  auto preview = StepPreview::open(given, {}, {});
  ASSERT_TRUE(preview) << preview.error().message();
  EXPECT_THAT((*preview)->step(0, 8).error().message(),
              HasSubstr("step 8: epoch 0 has 8 steps, from 0 on"));
  EXPECT_THAT((*preview)->step(1, 0).error().message(), HasSubstr("epoch 1: there is 1 epoch"));
  auto endless = StepPreview::open(of_mixture(kSources), {}, {});
  ASSERT_TRUE(endless) << endless.error().message();
  EXPECT_FALSE((*endless)->steps(0));
  EXPECT_TRUE((*endless)->step(0, 100'000));
}

}  // namespace
}  // namespace isocost
