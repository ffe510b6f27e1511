// Options of a node work on a mixture as on one data set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "balancer/layout/layout.h"
#include "balancer/layout/place.h"
#include "loader/config/option_table.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

// Records of texts, three in four, and shards of media.
class MixtureOptionsLoop : public LoopTest {
 protected:
  static constexpr std::uint64_t kTexts = 24;
  SampleId media_ = 32;  // usable samples of the source "media", which comes first by its name

  MixtureOptionsLoop() {
    make_dataset(32);
    std::ofstream records(scratch() / "texts.jsonl");
    for (SampleId i = 0; i < kTexts; ++i) {
      records << R"({"key": "t)" << i << R"(", "parts": [{"name": "txt", "text": ")"
              << std::string(10 + 20 * i, 'x') << "\"}]}\n";
    }
    std::ofstream(scratch() / "mixture.toml")
        << "steps = 8\n"
           "[[source]]\nname = \"texts\"\npath = \"texts.jsonl\"\nproportion = 3.0\n"
           "[[source]]\nname = \"media\"\npath = \"shards\"\nproportion = 1.0\n";
  }

  NodeOptions mixed(std::int64_t ranks) const {
    NodeOptions defaults = options(ranks);
    defaults.data = (scratch() / "mixture.toml").string();
    return make_options({}, std::move(defaults)).value();
  }

  void expect_proportions(const Delivered& delivered) const {
    const auto batches = delivered.batches();
    ASSERT_EQ(batches.size(), 8U);
    for (const auto& [step, batch] : batches) {
      EXPECT_EQ(batch.size(), 16U);
      EXPECT_EQ(std::ranges::count_if(batch, [this](SampleId id) { return id >= media_; }), 12)
          << step.second;
    }
  }
};

TEST_F(MixtureOptionsLoop, ALimitThatAllKeepMovesNoSample) {
  const auto expected = run(mixed(2)).batches();
  NodeOptions limited = mixed(2);
  limited.plan.microbatches = 0;
  limited.plan.max_tokens = 3000;
  std::atomic<std::int64_t> most = 0;
  const Delivered delivered =
      run(limited, [&](std::int64_t, Client&, const Microbatch& microbatch) {
        const auto ids = microbatch.find("llm.input_ids");
        const auto tokens = static_cast<std::int64_t>(ids->as<std::int64_t>().size());
        EXPECT_LE(tokens, 3000);
        for (std::int64_t before = most; tokens > before;) {
          if (most.compare_exchange_weak(before, tokens)) break;
        }
      });
  expect_proportions(delivered);
  EXPECT_EQ(delivered.batches(), expected);
  EXPECT_GT(most, 1000);
}

TEST_F(MixtureOptionsLoop, SamplesBeyondALimitAreNoneOfTheirSource) {
  NodeOptions limited = mixed(2);
  limited.plan.microbatches = 0;
  limited.bad_samples.max = "50%";
  limited.plan.max_tokens = 400;  // the longest texts have some 470 bytes
  before_serving = [&](Node& node) { media_ = node.dataset().sources().front().size; };
  const Delivered delivered = run(limited);
  expect_proportions(delivered);
  const std::uint64_t bad = delivered.summary.bad;
  EXPECT_GT(bad, 0U);
  const auto counts = delivered.counts(0);
  const auto texts =
      std::ranges::count_if(counts, [&](const auto& c) { return c.first >= media_; });
  EXPECT_EQ(static_cast<std::uint64_t>(texts) + bad, kTexts) << "96 draws give each other text";
}

TEST_F(MixtureOptionsLoop, StagesOfALayoutGetTheSameSteps) {
  const auto expected = run(mixed(2)).batches();
  Layout layout;
  layout.encoder = {2, 1, 2};
  layout.llm = {1, 3, 1};
  layout.microbatches = 3;
  NodeOptions staged = mixed(0);
  staged.plan.use_layout(std::make_shared<const Layout>(layout), "layout.json");
  const Delivered delivered = run(staged, static_cast<std::int64_t>(receivers(layout)), {});
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::multiset<SampleId>> last_stage;
  for (const Received& received : delivered.ranks.back()) {
    auto& batch = last_stage[{received.position.epoch, received.position.step}];
    for (const SampleEntry& sample : received.samples) batch.insert(sample.id);
  }
  EXPECT_EQ(last_stage, expected);
}

TEST_F(MixtureOptionsLoop, LoadsOfATrainerAreThoseOfTheMixturesSamples) {
  const auto expected = run(mixed(1)).batches();
  std::atomic<int> texts = 0;
  std::atomic<int> media = 0;
  const LoadHook counting = [&](SampleId id, const Dataset& dataset,
                                const Load& load) -> Result<Load> {
    (dataset.shard(id).starts_with("texts/") ? texts : media) += 1;
    Load longer = load;
    longer[CostModule::kLlm].units += 5;
    return longer;
  };
  NodeThread node(Node::create(mixed(1), {}, {}, counting).value());
  ClientOptions options;
  options.endpoint = node.endpoint();
  const auto client = Client::connect(options).value();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::multiset<SampleId>> batches;
  for (;;) {
    const auto next = client->next({});
    ASSERT_TRUE(next) << next.error().message();
    if (!next->has_value()) break;
    const MicrobatchHeader& header = (*next)->header;
    for (const SampleEntry& sample : header.samples) {
      batches[{header.position.epoch, header.position.step}].insert(sample.id);
    }
  }
  client->close();
  EXPECT_EQ(batches, expected);
  EXPECT_EQ(texts, 8 * 12);
  EXPECT_EQ(media, 8 * 4);
}

}  // namespace
}  // namespace isocost
