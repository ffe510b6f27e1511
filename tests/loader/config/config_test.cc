#include "loader/config/node_config.h"
#include "loader/config/option_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>

namespace isocost {
namespace {

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("1000").value(), 1000);
  EXPECT_EQ(parse_bytes("1.5k").value(), 1500);
  EXPECT_EQ(parse_bytes("2MB").value(), 2'000'000);
  EXPECT_EQ(parse_bytes("512MiB").value(), 512 * kMiB);
  EXPECT_EQ(parse_bytes("3GiB").value(), 3 * kGiB);
  EXPECT_EQ(parse_bytes("1Ti").value(), 1024 * kGiB);
}

TEST(ParseBytes, RefusesInvalidSizes) {
  for (const char* text : {"", "MiB", "-1", "1X", "1iB", "1e30", "nan", "12 MB"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
}

TEST(ApplyToml, ReadsEveryKindOfSetting) {
  NodeOptions options;
  ASSERT_TRUE(apply_toml(options, R"(
data = "data/shards"
ranks = 8
balance = "tokens"
correct = false
padded = "llm,vision"
memory = "4GiB"
heartbeat_timeout = 2.5
[recipe]
video_fps = 0.5
)",
                         "node.toml"));
  EXPECT_EQ(options.data, "data/shards");
  EXPECT_EQ(options.plan.ranks, 8);
  EXPECT_EQ(options.plan.balance, BalancePolicy::kTokens);
  EXPECT_FALSE(options.cost_model.correct);
  EXPECT_EQ(options.cost_model.padded, (std::array<bool, kModules>{true, false, true}));
  EXPECT_EQ(options.decode.memory, 4 * kGiB);
  EXPECT_EQ(options.service.heartbeat_timeout.count(), 2500);
  EXPECT_DOUBLE_EQ(options.decode.recipe.video_fps, 0.5);
}

std::string refusal(const char* toml) {
  NodeOptions options;
  const Status status = apply_toml(options, toml, "node.toml");
  return status ? "accepted" : status.error().message();
}

TEST(NodeOptions, ARecipeBesideAModelIsRefusedWhateverItSays) {
  const auto valid = [](const char* toml) {
    NodeOptions options;
    EXPECT_TRUE(apply_toml(options, toml, "node.toml")) << toml;
    return options.decode.recipe.validate();
  };
  EXPECT_TRUE(valid("model = 'dir'"));
  EXPECT_TRUE(valid("recipe.name = 'native28'"));
  for (const char* both :
       {"model = 'dir'\nrecipe.name = 'native28'", "recipe.video_fps = 1.0\nmodel = 'dir'"}) {
    const Status refused = valid(both);
    ASSERT_FALSE(refused) << both;
    EXPECT_NE(refused.error().message().find("leave recipe out"), std::string::npos) << both;
  }
}

TEST(NodeOptions, AMultipleNeedsAPaddedLlm) {
  NodeOptions options;
  options.data = "shards";
  options.plan.padded_multiple = 64;
  EXPECT_EQ(
      options.validate().error().message(),
      "padded_multiple = 64: it is of a trainer that pads the LLM: give padded = llm as well");
  options.cost_model.padded.back() = true;
  EXPECT_TRUE(options.validate());
  options.plan.padded_multiple = 0;
  EXPECT_FALSE(options.validate());
}

TEST(ApplyToml, TextIsNoNumberEvenIfItSaysOne) {
  EXPECT_EQ(refusal("seed = 1\nmax_tokens = '16384'\n"),
            "node.toml:2: max_tokens: '16384' is text: write max_tokens = 16384, without quotes");
  EXPECT_EQ(refusal("io_timeout = '2.5'"),
            "node.toml:1: io_timeout: '2.5' is text: write io_timeout = 2.5, without quotes");
  EXPECT_EQ(refusal("[recipe]\nvideo_fps = \"0.5\"\n"),
            "node.toml:2: recipe.video_fps: '0.5' is text: write video_fps = 0.5, without quotes");
  // Sizes and shares have units.
  EXPECT_EQ(refusal("memory = '4GiB'\nmax_memory = 1000\nmax_bad_samples = '5'\n"), "accepted");
  // Every setting that the table calls a number refuses the text of its default.
  for (const OptionSpec& spec : node_option_table()) {
    const NodeOptions options;
    if (!spec.is_number() || spec.name.find('.') != std::string::npos) continue;
    const std::string said = refusal((spec.name + " = '" + spec.get(options) + "'").c_str());
    EXPECT_TRUE(said.ends_with(", without quotes")) << said;
  }
}

TEST(ApplyToml, NamesFileLineAndKey) {
  EXPECT_EQ(refusal("ranks = 2\nrank = 3\n"),
            "node.toml:2: rank: no such setting; isocost serve --help lists them");
  EXPECT_EQ(refusal("ranks = 'many'"), "node.toml:1: ranks: 'many' is not a whole number in range");
  EXPECT_EQ(refusal("balance = 'fair'"),
            "node.toml:1: balance: 'fair' is not one of in-order|tokens|cost");
  EXPECT_EQ(refusal("padded = 'llm,text'"),
            "node.toml:1: padded: 'text' is not one of vision, audio, llm");
  EXPECT_EQ(refusal("seed = -1"), "node.toml:1: seed: '-1' is not a whole number in range");
  EXPECT_EQ(refusal("ranks = [1]"), "node.toml:1: ranks: expected text, a number or true/false");
  EXPECT_TRUE(refusal("ranks = = 2").starts_with("node.toml:1: ")) << refusal("ranks = = 2");
  EXPECT_TRUE(refusal("[recipe]\nfps = 2\n").starts_with("node.toml:2: recipe.fps: no such"));
}

// Each setting's own text must be one that it reads back to the same value.
TEST(OptionTable, DefaultsReadBack) {
  for (const OptionSpec& spec : node_option_table()) {
    NodeOptions options;
    const std::string standard = spec.get(options);
    ASSERT_TRUE(spec.set(options, standard)) << spec.name;
    EXPECT_EQ(spec.get(options), standard) << spec.name;
  }
}

// In Markdown.
std::string table_of_options() {
  const NodeOptions defaults;
  std::string out = "| key | flag | value | default | meaning |\n|---|---|---|---|---|\n";
  for (const OptionSpec& spec : node_option_table()) {
    std::string value = spec.value;
    for (std::size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 2) {
      value.insert(at, "\\");
    }
    const std::string standard = spec.get(defaults);
    out += "| `" + spec.name + "` | `" + spec.flag() + "` | " + value + " | " +
           (standard.empty() ? "" : "`" + standard + "`") + " | " + spec.text + " |\n";
  }
  return out;
}

TEST(OptionTable, IsTheOneInTheDocs) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/docs/config.md");
  const std::string docs((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(docs.find(table_of_options()), std::string::npos)
      << "docs/config.md must hold this table:\n"
      << table_of_options();
}

TEST(NodeOptions, NamesFieldValueAndRange) {
  NodeOptions options;
  EXPECT_TRUE(options.validate().error().message().starts_with("data: "));
  options.data = "x";
  EXPECT_TRUE(options.validate().has_value());
  options.service.heartbeat_timeout = std::chrono::milliseconds(0);
  EXPECT_EQ(options.validate().error().message(),
            "heartbeat_timeout = 0 s: allowed are 0.1 s to 86400 s");
  options.service.heartbeat_timeout = std::chrono::milliseconds(100);
  EXPECT_TRUE(options.validate().has_value());
  options.plan.ranks = -1;
  EXPECT_EQ(options.validate().error().message(), "ranks = -1: allowed are 0 to 100000");
  options.plan.ranks = 32;
  EXPECT_EQ(options.validate().error().message(),
            "global_batch_size = 64: 32 ranks × 4 microbatches need at least 128");
  options.plan.ranks = 2;
  options.plan.global_batch_size = 1'000'000;
  EXPECT_EQ(
      options.validate().error().message(),
      "global_batch_size = 1000000: 2 ranks × 4 microbatches take at most 131072: give ranks, "
      "or more microbatches");
  options.plan.global_batch_size = 64;
  options.plan.ranks = 0;
  options.plan.lookahead = 4;
  EXPECT_EQ(options.validate().error().message(),
            "lookahead = 4: batches are composed for a number of ranks; set ranks as well");
  options.plan.ranks = 2;
  EXPECT_TRUE(options.validate().has_value());
  options.plan.balance = BalancePolicy::kInOrder;
  EXPECT_EQ(options.validate().error().message(),
            "lookahead = 4: only balance = cost composes several global batches together");
}

}  // namespace
}  // namespace isocost
