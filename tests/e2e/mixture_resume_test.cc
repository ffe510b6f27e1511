// Runs of one job whose mixture is edited between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "loader/config/option_table.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Steps = std::map<std::uint32_t, std::multiset<std::string>>;  // keys of the samples

// Three sources: shard 0, shards 1 and 2, and shard 3, of 16, 32 and 8 samples.
class MixtureResume : public LoopTest {
 protected:
  MixtureResume() {
    make_dataset(56);
    for (const auto& entry : std::filesystem::directory_iterator(shards())) {
      if (entry.path().extension() == ".tar") files_.push_back(entry.path().string());
    }
    std::ranges::sort(files_);
  }

  std::string source(const std::string& name, const std::string& more) const {
    std::string paths = "\"" + files_.at(0) + "\"";
    if (name == "middle") paths = "\"" + files_.at(1) + "\", \"" + files_.at(2) + "\"";
    if (name == "late") paths = "\"" + files_.at(3) + "\"";
    return "[[source]]\nname = \"" + name + "\"\npath = [" + paths + "]\n" + more + "\n";
  }

  static std::string proportion(const std::string& value) { return "proportion = " + value; }

  NodeOptions options_of(const std::string& mixture, std::int64_t lookahead = 1) const {
    const std::filesystem::path file = scratch() / "mixture.toml";
    std::ofstream(file) << mixture;
    NodeOptions defaults = options(0);
    defaults.data = file.string();
    defaults.plan.epochs = 1;
    defaults.plan.global_batch_size = 8;
    defaults.plan.microbatches = 1;
    if (lookahead > 1) {
      defaults.plan.lookahead = lookahead;
      defaults.plan.ranks = 2;
    }
    return make_options({}, std::move(defaults)).value();
  }

  // Ranks train the steps from `start` up to `stop` (without it: all) on a node of their own, and
  // leave without a word. Returns the samples, and keeps the point from which the job can go on.
  Steps train(const NodeOptions& options, std::int32_t ranks, std::optional<std::uint32_t> stop,
              const std::optional<StartPoint>& start = {}) {
    NodeThread node(Node::create(options, {}, node_log).value());
    std::vector<Steps> seen(static_cast<std::size_t>(ranks));
    {
      std::vector<std::jthread> threads;
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        ClientOptions client{.endpoint = node.endpoint(), .rank = rank, .world_size = ranks};
        client.start = start;
        client.accept_other_data = start && start->cursor == 0;
        threads.emplace_back([this, client, stop, &seen, rank] {
          train_rank(client, stop, seen[static_cast<std::size_t>(rank)]);
        });
      }
    }
    Steps all;
    for (const Steps& of_rank : seen) {
      for (const auto& [step, keys] : of_rank) all[step].insert(keys.begin(), keys.end());
    }
    return all;
  }

  // Returns why a node refuses to go on at a step of a job that was saved with `state`.
  static std::string refusal(const NodeOptions& options, const StartPoint& state) {
    NodeThread node(Node::create(options, {}, {}).value());
    ClientOptions client{.endpoint = node.endpoint(), .world_size = 2};
    client.start = state;
    const auto connected = Client::connect(client);
    return connected ? "" : connected.error().message();
  }

  // Returns the state of the last run, at a step.
  StartPoint state(std::uint32_t step) const {
    StartPoint start = start_;
    start.step = step;
    return start;
  }

  std::vector<std::string> files_;

 private:
  void train_rank(const ClientOptions& options, std::optional<std::uint32_t> stop, Steps& seen) {
    const auto connected = Client::connect(options);
    ASSERT_TRUE(connected.has_value()) << connected.error().message();
    Client& client = **connected;
    if (options.rank == 0) start_ = client.welcome().start;
    for (;;) {
      const auto next = client.next({});
      ASSERT_TRUE(next.has_value()) << next.error().message();
      if (!next->has_value()) {
        if (client.epoch_end()->last_epoch) return client.close();
        continue;
      }
      const MicrobatchHeader& header = (*next)->header;
      if (stop && header.position.step >= *stop) return;
      for (const SampleEntry& sample : header.samples) {
        if (sample.weight > 0) seen[header.position.step].insert(sample.key);
      }
    }
  }

  StartPoint start_;
};

std::string text(std::uint32_t number) { return std::to_string(number); }

TEST_F(MixtureResume, EditsGiveWhatOneRunOfTheLastMixtureGives) {
  Random random(11);
  for (int round = 0; round < 3; ++round) {
    const auto steps_until = [&](std::uint32_t from) {
      return from + 1 + static_cast<std::uint32_t>(random.below(6));
    };
    const std::uint32_t a = steps_until(0);
    const std::uint32_t b = steps_until(a);
    const std::uint32_t c = steps_until(b);
    const std::string middle = source("middle", proportion("[[0, 1.0], [" + text(a) + ", 3.0]]"));
    const std::string late = source("late", proportion("[[" + text(b) + ", 2.0]]"));
    const std::string end =
        "steps = " + text(c + 8) + "\nskip_steps = [\"" + text(c + 2) + "-" + text(c + 4) + "\"]\n";
    const Steps expected =
        train(options_of(end + source("first", proportion("[[0, 1.0], [" + text(b) + ", 0.0]]")) +
                         late + middle),
              2, {});

    // Proportions change, then a source goes and another one comes, then steps are left out.
    const std::string first = source("first", proportion("1.0"));
    Steps found = train(options_of(source("middle", proportion("1.0")) + first), 2, a);
    found.merge(train(options_of(first + middle), 3, b, state(a)));
    found.merge(train(options_of(middle + late), 1, c, state(b)));
    found.merge(train(options_of(end + late + middle), 2, {}, state(c)));
    EXPECT_EQ(found.size(), c + 8 - 3) << a << " " << b << " " << c;
    EXPECT_EQ(found, expected) << a << " " << b << " " << c;
  }
}

TEST_F(MixtureResume, EditsOfTrainedStepsAreRefusedByName) {
  const std::string first = source("first", proportion("1.0"));
  const std::string late = source("late", proportion("1.0"));
  train(options_of(first + source("middle", proportion("1.0"))), 2, 6);
  const auto refused = [&](const std::string& mixture) {
    return refusal(options_of(mixture), state(6));
  };
  EXPECT_EQ(refused(first + source("middle", proportion("[[0, 1.0], [6, 3.0]]"))), "");
  EXPECT_THAT(refused(first + source("middle", proportion("[[0, 1.0], [4, 3.0]]"))),
              AllOf(HasSubstr("rank 0 resumes a saved state: source 'first' gives 2 samples to "
                              "step 4, and gave it 4 when it was trained"),
                    HasSubstr("from step 6 on only")));
  EXPECT_THAT(refused(first + source("middle", proportion("1.0")) + late),
              HasSubstr("source 'late' gives"));
  EXPECT_THAT(refused("skip_steps = [\"3\"]\n" + first + source("middle", proportion("1.0"))),
              HasSubstr("leave out steps from 6 on only"));
  std::swap(files_[0], files_[3]);  // "first" has other data now
  EXPECT_THAT(refused(source("first", proportion("1.0")) + source("middle", proportion("1.0"))),
              AllOf(HasSubstr("source 'first' has 8 usable samples, and had 16"),
                    HasSubstr("give it a new name")));
}

TEST_F(MixtureResume, AMixtureThatEndedGoesOnWhereMoreStepsAreGiven) {
  const std::string sources =
      source("first", proportion("1.0")) + source("late", proportion("2.0"));
  const Steps expected = train(options_of("steps = 9\n" + sources), 2, {});
  Steps found = train(options_of("steps = 5\n" + sources), 2, {});
  ASSERT_EQ(found.size(), 5U);
  StartPoint ended = state(0);
  ended.epoch = 1;
  found.merge(train(options_of("steps = 9\n" + sources), 1, {}, ended));
  EXPECT_EQ(found, expected);
}

TEST_F(MixtureResume, WithLookAheadEditsBeginWithAWindow) {
  const std::string first = source("first", proportion("1.0"));
  const auto middle = [&](std::uint32_t step) {
    return source("middle", proportion("[[0, 1.0], [" + text(step) + ", 3.0]]"));
  };
  const Steps expected = train(options_of("steps = 12\n" + first + middle(8), 4), 2, {});
  const std::string before = first + source("middle", proportion("1.0"));
  Steps found = train(options_of(before, 4), 2, 6);
  EXPECT_THAT(refusal(options_of("steps = 12\n" + first + middle(6), 4), state(6)),
              HasSubstr("from step 8 on only"));
  found.merge(train(options_of("steps = 12\n" + first + middle(8), 4), 2, {}, state(6)));
  EXPECT_EQ(found, expected);
}

TEST_F(MixtureResume, OneDataSetLeavesOutStepsFromWhereItResumes) {
  NodeOptions plain = options(0);
  plain.plan.epochs = 1;
  plain.plan.global_batch_size = 8;
  plain.plan.microbatches = 1;
  const Steps whole = train(plain, 2, {});
  ASSERT_EQ(whole.size(), 7U);
  Steps found = train(plain, 2, 3);
  NodeOptions skipping = plain;
  skipping.plan.skip_steps = SkippedSteps::parse({"2"}).value();
  EXPECT_THAT(refusal(skipping, state(3)), HasSubstr("leave out steps from 3 on only"));
  skipping.plan.skip_steps = SkippedSteps::parse({"4-5"}).value();
  found.merge(train(skipping, 1, {}, state(3)));
  ASSERT_EQ(found.size(), 5U);
  for (const auto& [step, keys] : found) EXPECT_EQ(keys, whole.at(step < 4 ? step : step + 2));
  // A run that would forget them is refused.
  EXPECT_THAT(refusal(plain, state(5)), HasSubstr("skip_steps"));
  EXPECT_EQ(refusal(skipping, state(5)), "");
}

TEST_F(MixtureResume, AStateKeepsToItsKindOfData) {
  NodeOptions plain = options(0);
  plain.plan.global_batch_size = 8;
  plain.plan.microbatches = 1;
  const NodeOptions mixed =
      options_of(source("first", proportion("1.0")) + source("middle", proportion("1.0")));
  train(mixed, 2, 2);
  EXPECT_THAT(refusal(plain, state(2)), HasSubstr("the node has one data set"));
  train(plain, 2, 2);
  EXPECT_THAT(refusal(mixed, state(2)), HasSubstr("the node has a mixture"));
}

// Each source is read in windows of its own shards, whatever the number of ranks.
TEST_F(MixtureResume, InBlocksARestartOnOtherRanksGivesTheSameSteps) {
  const std::string mixture = "steps = 12\n" + source("first", proportion("1.0")) +
                              source("middle", proportion("[[0, 2.0], [5, 1.0]]"));
  NodeOptions blocks = options_of(mixture);
  blocks.plan.shuffle = ShufflePolicy::kBlocks;
  blocks.plan.shuffle_shards = 1;
  const Steps expected = train(blocks, 2, {});
  ASSERT_EQ(expected.size(), 12U);
  Steps trained = train(blocks, 1, 4);
  const StartPoint saved = state(4);
  EXPECT_THAT(saved.mixture, HasSubstr("\"shuffle_shards\":1"));
  trained.merge(train(blocks, 3, 9, saved));
  trained.merge(train(blocks, 2, {}, state(9)));
  EXPECT_EQ(trained, expected);

  NodeOptions other = blocks;
  other.plan.shuffle_shards = 2;
  EXPECT_THAT(refusal(other, saved), HasSubstr("shuffle_shards is 2, and was 1 when"));
  other.plan.shuffle = ShufflePolicy::kGlobal;
  EXPECT_THAT(refusal(other, saved), HasSubstr("shuffle is global, and was blocks when"));
  // 16 samples of the first source, in their only shard's order.
  EXPECT_NE(train(options_of(mixture), 2, {}), expected);
}

}  // namespace
}  // namespace isocost
