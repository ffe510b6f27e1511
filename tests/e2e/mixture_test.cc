// A node and its clients on a mixture of real shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "loader/config/option_table.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

// Two sources: "first" has the first shard, with 16 samples, and "rest" the others, with 40.
class MixtureLoop : public LoopTest {
 protected:
  MixtureLoop() {
    make_dataset(56);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(shards())) {
      if (entry.path().extension() == ".tar") files.push_back(entry.path().filename());
    }
    std::ranges::sort(files);
    first_ = "path = \"shards/" + files.front().string() + "\"\n";
    rest_ = "path = [";
    for (std::size_t i = 1; i < files.size(); ++i) rest_ += "\"shards/" + files[i].string() + "\",";
    rest_ += "]\n";
  }

  std::string source(const std::string& name, const std::string& more) const {
    return "[[source]]\nname = \"" + name + "\"\n" + (name == "first" ? first_ : rest_) + more +
           "\n";
  }

  Result<NodeOptions> read(const std::string& text, const GivenSettings& settings = {}) const {
    const std::filesystem::path file = scratch() / "mixture.toml";
    std::ofstream(file) << text;
    NodeOptions defaults = options(2);
    defaults.data = file.string();
    defaults.plan.epochs = 1;
    return make_options(settings, std::move(defaults));
  }

  static constexpr SampleId kFirst = 16;  // samples of "first", whose name comes first

  std::string first_;
  std::string rest_;
};

std::uint64_t of_first(const std::multiset<SampleId>& batch) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(batch, [](SampleId id) { return id < 16; }));
}

TEST_F(MixtureLoop, GivesEachStepItsProportions) {
  auto given = read("steps = 12\n" + source("rest", "proportion = [[0, 1.0], [6, 3.0]]") +
                    source("first", "proportion = 1.0"));
  ASSERT_TRUE(given) << given.error().message();
  given->plan.global_batch_size = 8;
  const auto batches = run(*given).batches();
  ASSERT_EQ(batches.size(), 12U);
  std::multiset<SampleId> all;
  for (const auto& [step, batch] : batches) {
    EXPECT_EQ(step.first, 0U);
    EXPECT_EQ(batch.size(), 8U);
    EXPECT_EQ(of_first(batch), step.second < 6 ? 4U : 2U) << step.second;
    all.insert(batch.begin(), batch.end());
  }
  // 36 draws of 16 samples: each twice, and four a third time.
  for (SampleId id = 0; id < kFirst; ++id) {
    EXPECT_GE(all.count(id), 2U);
    EXPECT_LE(all.count(id), 3U);
  }
}

TEST_F(MixtureLoop, IsTheSameForAnyRanksAndOrderOfTheFile) {
  const std::string rest = source("rest", "proportion = [[0, 1.0], [4, 2.0]]\nramp = true");
  const std::string first = source("first", "proportion = 1.0");
  auto one = read("steps = 6\n" + rest + first).value();
  one.plan.ranks = 1;
  const auto expected = run(one).batches();
  EXPECT_EQ(expected.size(), 6U);
  EXPECT_EQ(run(read("steps = 6\n" + first + rest).value()).batches(), expected);
}

TEST_F(MixtureLoop, EndsWithTheEpochsOfItsSourcesAndSaysSo) {
  LogLines lines;
  node_log = lines.sink();
  auto given = read(source("rest", "proportion = 1.0\nepochs = 1") +
                    source("first", "proportion = 1.0\nepochs = 2"))
                   .value();
  given.plan.global_batch_size = 8;
  const Delivered delivered = run(given);
  std::map<SampleId, int> counts = delivered.counts(0);
  EXPECT_EQ(counts.size(), 56U);
  for (const auto& [id, count] : counts) EXPECT_EQ(count, id < kFirst ? 2 : 1) << id;
  EXPECT_EQ(delivered.batches().size(), 9U);
  EXPECT_THAT(lines.lines(), Contains(HasSubstr("source 'first' gives its last samples")));
}

TEST_F(MixtureLoop, WithoutProportionsAnEpochIsOnePass) {
  auto given = read(source("rest", "") + source("first", "")).value();
  given.plan.epochs = 2;
  const Delivered delivered = run(given);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    const std::map<SampleId, int> counts = delivered.counts(epoch);
    EXPECT_EQ(counts.size(), 56U);
    for (const auto& [id, count] : counts) EXPECT_EQ(count, 1) << id;
  }
}

TEST_F(MixtureLoop, SkippedStepsMoveNoOtherSamples) {
  const std::string sources =
      source("rest", "proportion = 2.0") + source("first", "proportion = 1.0");
  const auto whole = run(read("steps = 8\n" + sources).value()).batches();
  const auto skipping =
      run(read("steps = 8\nskip_steps = [\"2-4\"]\n" + sources).value()).batches();
  ASSERT_EQ(skipping.size(), 5U);
  for (const auto& [step, batch] : skipping) {
    EXPECT_EQ(batch, whole.at({0, step.second < 2 ? step.second : step.second + 3}));
  }
}

TEST_F(MixtureLoop, LookAheadWorksOnIt) {
  const std::string sources =
      source("rest", "proportion = 2.0") + source("first", "proportion = 1.0");
  auto given = read("steps = 8\n" + sources).value();
  const auto drawn = run(given).batches();
  given.plan.lookahead = 4;
  const auto composed = run(given).batches();
  for (std::uint32_t window = 0; window < 8; window += 4) {
    std::multiset<SampleId> before;
    std::multiset<SampleId> after;
    for (std::uint32_t step = window; step < window + 4; ++step) {
      before.insert(drawn.at({0, step}).begin(), drawn.at({0, step}).end());
      after.insert(composed.at({0, step}).begin(), composed.at({0, step}).end());
    }
    EXPECT_EQ(after, before);
  }
}

TEST_F(MixtureLoop, WithoutALengthTheWelcomeSaysSo) {
  auto given =
      read(source("rest", "proportion = 2.0") + source("first", "proportion = 1.0")).value();
  given.plan.ranks = 1;
  NodeThread node(Node::create(given, {}, {}).value());
  ClientOptions options;
  options.endpoint = node.endpoint();
  const auto client = Client::connect(options).value();
  const bool has_length = client->welcome().has_length;
  for (int microbatch = 0; microbatch < 40; ++microbatch) {
    const auto next = client->next({});
    ASSERT_TRUE(next.has_value()) << next.error().message();
    ASSERT_TRUE(next->has_value());
  }
  client->close();
  EXPECT_FALSE(has_length);
}

TEST_F(MixtureLoop, OneShardIsReadInOneWay) {
  const auto twice = [&](const std::string& more) {
    const std::string file = first_;
    return Node::create(
        read("[[source]]\nname = \"a\"\n" + file + "[[source]]\nname = \"b\"\n" + file + more)
            .value(),
        {}, {});
  };
  EXPECT_TRUE(twice(""));
  const auto refused = twice("weight_key = \"other\"\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("sources 'a' and 'b' read"), HasSubstr("in two ways"),
                    HasSubstr("make a directory with links")));
}

TEST_F(MixtureLoop, NamesShardsBySourceAndRefusesWhatDoesNotApply) {
  const std::string good = source("rest", "proportion = 1.0") + source("first", "proportion = 1.0");
  GivenSettings tail;
  ASSERT_TRUE(tail.add("tail", "drop", "--tail"));
  const auto dropped = read(good, tail);
  ASSERT_FALSE(dropped);
  EXPECT_THAT(dropped.error().message(), AllOf(HasSubstr("--tail: "), HasSubstr("has no tail")));
  GivenSettings epochs;
  ASSERT_TRUE(epochs.add("epochs", "3", "--epochs"));
  const auto several = read(good, epochs);
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message(), AllOf(HasSubstr("--epochs: "), HasSubstr("no epochs")));
  GivenSettings skipped;
  ASSERT_TRUE(skipped.add("skip_steps", "3", "--skip-steps"));
  EXPECT_EQ(read(good, skipped)->mixture->skipped.texts(), (std::vector<std::string>{"3"}));
  const auto twice = read("skip_steps = ['2']\n" + good, skipped);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message(), AllOf(HasSubstr("--skip-steps: "), HasSubstr("too")));
  GivenSettings late;
  ASSERT_TRUE(late.add("skip_steps", "8", "--skip-steps"));
  const auto outside = Node::create(read("steps = 8\n" + good, late).value(), {}, {});
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().message(), HasSubstr("leaves out step 8, and there are 8 steps"));
  const auto missing = read("[[source]]\nname = \"gone\"\npath = \"none/*.tar\"\n");
  ASSERT_TRUE(missing) << missing.error().message();
  const auto node = Node::create(*missing, {}, {});
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message(), AllOf(HasSubstr("gone"), HasSubstr("none/*.tar")));
}

}  // namespace
}  // namespace isocost
