#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>

#include "balancer/layout/layout.h"
#include "base/scratch_directory.h"
#include "costmodel/profile.h"

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

// The options that TOML text sets. `options` keeps the others.
Status apply_toml(std::string_view toml, NodeOptions& options) {
  GivenSettings settings;
  ISOCOST_TRY(settings.add_toml(toml, "node.toml"));
  return apply(settings, options);
}

TEST(TomlSettings, ReadsEveryKindOfSetting) {
  NodeOptions options;
  ASSERT_TRUE(apply_toml(R"(
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
                         options));
  EXPECT_EQ(options.data, "data/shards");
  EXPECT_EQ(options.plan.ranks, 8);
  EXPECT_EQ(options.plan.balance, BalancePolicy::kTokens);
  EXPECT_FALSE(options.cost_model.correct);
  EXPECT_EQ(options.cost_model.padded, (std::array<bool, kModules>{true, false, true}));
  EXPECT_EQ(options.decode.memory, 4 * kGiB);
  EXPECT_EQ(options.service.heartbeat_timeout.count(), 2500);
  EXPECT_DOUBLE_EQ(std::get<Native28Options>(options.decode.recipe).video_fps, 0.5);
}

std::string refusal(const std::string& toml) {
  NodeOptions options;
  const Status status = apply_toml(toml, options);
  return status ? "accepted" : status.error().message();
}

TEST(NodeOptions, ARecipeBesideAModelIsRefusedWhateverItSays) {
  EXPECT_EQ(refusal("model = 'dir'"), "accepted");
  EXPECT_EQ(refusal("recipe.name = 'native28'"), "accepted");
  EXPECT_EQ(refusal("model = ''\nrecipe.name = 'native28'"), "accepted");
  EXPECT_EQ(refusal("recipe.name = 'square'"),
            "node.toml:1: recipe.name: there is none called 'square'; use native28, or give a "
            "model's directory as model");
  const std::string both =
      "model and recipe are both given: the model's directory dir says how media are prepared, so "
      "leave recipe out";
  EXPECT_EQ(refusal("model = 'dir'\nrecipe.name = 'native28'"),
            "node.toml:2: recipe.name: " + both);
  EXPECT_EQ(refusal("recipe.video_fps = 1.0\nmodel = 'dir'"),
            "node.toml:1: recipe.video_fps: " + both);
}

TEST(NodeOptions, TruncatedIsASettingOfBothKindsOfRecipe) {
  NodeOptions native;
  ASSERT_TRUE(apply_toml("truncated = 'accept'\n", native));
  EXPECT_EQ(std::get<Native28Options>(native.decode.recipe).truncated, Truncated::kAccept);
  for (const char* toml :
       {"truncated = 'accept'\nmodel = 'dir'\n", "model = 'dir'\ntruncated = 'accept'\n"}) {
    NodeOptions model;
    ASSERT_TRUE(apply_toml(toml, model));
    EXPECT_EQ(std::get<ModelRecipeOptions>(model.decode.recipe).truncated, Truncated::kAccept);
  }
}

TEST(NodeOptions, PicturesOfAModelHaveTheirSettingsInAnyOrder) {
  NodeOptions options;
  ASSERT_TRUE(apply_toml("exactness = 'fast'\nmodel = 'dir'\nalpha = 'drop'\n", options));
  const auto& model = std::get<ModelRecipeOptions>(options.decode.recipe);
  EXPECT_EQ(model.directory, "dir");
  EXPECT_EQ(model.exactness, Exactness::kFast);
  EXPECT_EQ(model.alpha, Alpha::kDrop);
  EXPECT_EQ(find_node_option("recipe.video_fps")->get(options), "1");
  // Without a model they are checked, and have no effect.
  EXPECT_EQ(refusal("exactness = 'fast'"), "accepted");
  EXPECT_EQ(refusal("exactness = 'near'"),
            "node.toml:1: exactness: 'near' is not one of exact|fast");
}

TEST(NodeOptions, TheSizeOfPicturesIsAModels) {
  NodeOptions options;
  ASSERT_TRUE(
      apply_toml("image_size = 'min_pixels=3136,max_pixels=50176'\nmodel = 'dir'\n", options));
  const auto& model = std::get<ModelRecipeOptions>(options.decode.recipe);
  EXPECT_EQ(model.image_size, (ImageSize{{"max_pixels", 50176}, {"min_pixels", 3136}}));
  EXPECT_EQ(find_node_option("image_size")->get(options), "max_pixels=50176,min_pixels=3136");
  EXPECT_EQ(refusal("image_size = ''"), "accepted");
  EXPECT_EQ(refusal("image_size = 'max_pixels=9'"),
            "node.toml:1: image_size: it is for a model's pictures; give model, or for the recipe "
            "native28 its max_image_patches");
  for (const char* text : {"max_pixels", "max_pixels=", "=9", "max_pixels=9.5", "a=1,,b=2"}) {
    EXPECT_THAT(refusal("model = 'dir'\nimage_size = '" + std::string(text) + "'"),
                testing::HasSubstr("is not KEY=N"))
        << text;
  }
  EXPECT_THAT(refusal("model = 'dir'\nimage_size = 'a=1,a=2'"),
              testing::HasSubstr("a is given twice"));
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

TEST(TomlSettings, TextIsNoNumberEvenIfItSaysOne) {
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

TEST(TomlSettings, NamesFileLineAndKey) {
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

TEST(GivenSettings, TheLastOfANameHolds) {
  GivenSettings settings;
  EXPECT_EQ(settings.find("ranks"), nullptr);
  ASSERT_TRUE(settings.add_toml("ranks = 2\nseed = 7\n", "node.toml"));
  GivenSettings flags;
  ASSERT_TRUE(flags.add("ranks", "8", "--ranks"));
  settings.add(flags);
  EXPECT_EQ(settings.find("ranks")->value, "8");
  EXPECT_EQ(settings.find("ranks")->source, "--ranks");
  EXPECT_EQ(settings.find("seed")->source, "node.toml:2: seed");
  EXPECT_EQ(settings.find("steps"), nullptr);
  EXPECT_EQ(settings.list().size(), 3U);
}

TEST(GivenSettings, AnErrorBeginsWithTheSource) {
  GivenSettings settings;
  EXPECT_EQ(settings.add("rank", "8", "rank").error().message(),
            "rank: no such setting; docs/config.md lists them");
  ASSERT_TRUE(settings.add("ranks", "many", "--ranks"));
  EXPECT_EQ(make_options(settings).error().message(),
            "--ranks: 'many' is not a whole number in range");
}

TEST(GivenSettings, StepsToLeaveOutAreATextOrAnArray) {
  for (const char* toml : {"skip_steps = '1200-1210,7'", "skip_steps = ['7', '1200-1210']"}) {
    GivenSettings settings;
    ASSERT_TRUE(settings.add("data", "shards", "--data"));
    ASSERT_TRUE(settings.add_toml(toml, "node.toml"));
    EXPECT_EQ(make_options(settings).value().plan.skip_steps.texts(),
              (std::vector<std::string>{"7", "1200-1210"}));
  }
  GivenSettings settings;
  ASSERT_TRUE(settings.add_toml("skip_steps = ['5-3']", "node.toml"));
  EXPECT_THAT(make_options(settings).error().message(),
              testing::HasSubstr("node.toml:1: skip_steps: \"5-3\" ends before it begins"));
  EXPECT_FALSE(GivenSettings().add_toml("skip_steps = [5]", "node.toml"));
}

class MakeOptions : public testing::Test {
 protected:
  // From weakest to strongest.
  Result<NodeOptions> make(std::string_view toml, const std::string& microbatches = "") const {
    GivenSettings settings;
    ISOCOST_TRY(settings.add("data", "shards", "--data"));
    ISOCOST_TRY(settings.add_toml(toml, "node.toml"));
    if (!microbatches.empty()) {
      ISOCOST_TRY(settings.add("microbatches", microbatches, "--microbatches"));
    }
    return make_options(settings);
  }
  std::string refusal(std::string_view toml, const std::string& microbatches = "") const {
    const auto made = make(toml, microbatches);
    return made ? "accepted" : made.error().message();
  }
  void write_layout(std::size_t microbatches) const {
    Layout layout;
    layout.encoder = {1, 1, 2};
    layout.llm = {2, 2, 2};
    layout.microbatches = microbatches;
    std::ofstream(file_) << layout.to_json();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  const std::string file_ = (scratch_ / "layout.json").string();
  const std::string layout_ = "layout = '" + file_ + "'\n";
};

TEST_F(MakeOptions, ALayoutComesBeforeTheFileAndTheFileBeforeFlags) {
  write_layout(6);
  const NodeOptions of_layout = make("global_batch_size = 96\n" + layout_).value();
  EXPECT_EQ(of_layout.plan.ranks, 2);
  EXPECT_EQ(of_layout.plan.microbatches, 6);
  EXPECT_EQ(of_layout.plan.global_batch_size, 96);
  // Numbers that contradict the layout are refused, wherever they stand; those that repeat it are
  // not.
  EXPECT_EQ(refusal("ranks = 4\n" + layout_),
            "ranks = 4: layout " + file_ + " has 2 LLM replicas: leave ranks out, or the layout");
  EXPECT_THAT(refusal("microbatches = 6\n" + layout_, "4"),
              testing::StartsWith("microbatches = 4"));
  EXPECT_EQ(refusal("microbatches = 4\n" + layout_, "6"), "accepted");
}

TEST_F(MakeOptions, AWindowOfShardsIsOneOfBlocks) {
  EXPECT_EQ(make("shuffle = 'blocks'\n").value().plan.shuffle_shards, 16);
  const NodeOptions eight = make("shuffle = 'blocks'\nshuffle_shards = 8\n").value();
  EXPECT_EQ(eight.plan.shuffle, ShufflePolicy::kBlocks);
  EXPECT_EQ(eight.plan.shuffle_shards, 8);
  // Also the default, since whoever gives it expects it to count.
  EXPECT_THAT(refusal("shuffle_shards = 16\n"),
              testing::EndsWith(":1: shuffle_shards: only shuffle = blocks draws from windows of "
                                "shards, and shuffle is global: give shuffle = blocks, or leave it "
                                "out"));
  EXPECT_THAT(refusal("shuffle = 'off'\nshuffle_shards = 8\n"),
              testing::HasSubstr("and shuffle is off: give shuffle = blocks"));
  EXPECT_EQ(refusal("shuffle = 'blocks'\nshuffle_shards = 0\n"),
            "shuffle_shards = 0: allowed are 1 to 1000000000");
  EXPECT_THAT(refusal("shuffle = 'windows'\n"),
              testing::HasSubstr("'windows' is not one of off|global|blocks"));
}

TEST_F(MakeOptions, FilesAreReadOnce) {
  write_layout(6);
  const std::string profile = (scratch_ / "profile.json").string();
  std::ofstream(profile) << CostProfile::stated_default().to_json();
  NodeOptions options = make(layout_ + "profile = '" + profile + "'\n").value();
  write_layout(4);
  std::ofstream(profile) << "no profile";
  ASSERT_TRUE(options.read_files());
  EXPECT_EQ(options.plan.layout->microbatches, 6U);
  EXPECT_EQ(options.cost_model.profile->source, profile);
  EXPECT_TRUE(options.validate());
}

TEST_F(MakeOptions, FilesThatCannotBeReadAreNamed) {
  EXPECT_EQ(make("layout = 'no/such.json'").error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(refusal("layout = 'no/such.json'"), testing::HasSubstr("no/such.json"));
  EXPECT_THAT(refusal("profile = 'no/such.json'"), testing::HasSubstr("no/such.json"));
  std::ofstream(file_) << "{}";
  EXPECT_THAT(refusal(layout_), testing::HasSubstr(file_));
}

TEST_F(MakeOptions, WhatTheProfileDoesNotKnowCannotBeLimited) {
  const std::string profile = (scratch_ / "profile.json").string();
  CostProfile without_dimensions = CostProfile::stated_default();
  for (ModuleProfile& module : without_dimensions.modules) module.architecture.reset();
  std::ofstream(profile) << without_dimensions.to_json();
  EXPECT_THAT(refusal("max_memory = '1GiB'\nprofile = '" + profile + "'\n"),
              testing::HasSubstr("knows no bytes of activations"));
}

// Each setting's own text must be one that it reads back to the same value.
// A command that a node names plans other samples if it lacks one of them.
TEST(OptionTable, TheSizesOfARecipeAreFlags) {
  for (const OptionSpec& spec : node_option_table()) {
    if (!spec.name.starts_with("recipe.") || spec.name == "recipe.name") continue;
    NodeOptions options;
    EXPECT_EQ(size_flags(options.decode.recipe), "");
    ASSERT_TRUE(spec.set(options, "7"));
    EXPECT_EQ(size_flags(options.decode.recipe), " " + spec.flag() + " 7");
  }
  EXPECT_EQ(size_flags(Native28Options{.video_fps = 0.1}), " --video-fps 0.1");
  EXPECT_EQ(size_flags(ModelRecipeOptions{.directory = "model", .image_size = {{"max_pixels", 9}}}),
            " --image-size max_pixels=9");
}

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
            "global_batch_size = 64: 32 ranks × 4 microbatches need at least 128: give a larger "
            "one, or fewer microbatches");
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
