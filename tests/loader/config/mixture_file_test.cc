#include "loader/config/internal/mixture_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/scratch_directory.h"
#include "loader/config/internal/nearest_key.h"

namespace isocost {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kMixture = R"(
steps = 50000
skip_steps = ["1200-1210", "7"]
[[source]]
name = "captions"
path = "shards/{00000..00999}.tar"
proportion = 3.0
text = "json[caption]"
[[source]]
name = "documents"
path = ["data/docs.jsonl", "/more/*.jsonl"]
media_root = "data/media"
format = "records"
split = "train"
proportion = [[0, 1.0], [20000, 4]]
ramp = true
epochs = 4
ignore_parts = "cls"
weight_key = "w"
)";

TEST(MixtureFile, ReadsEveryKey) {
  const auto mixture = parse_mixture(kMixture, "jobs/mixture.toml").value();
  EXPECT_EQ(mixture.directory, "jobs");
  EXPECT_EQ(mixture.steps, 50000U);
  EXPECT_THAT(mixture.skipped.texts(), ElementsAre("7", "1200-1210"));
  ASSERT_EQ(mixture.sources.size(), 2U);
  const SourceDescription& captions = mixture.sources[0];
  EXPECT_EQ(captions.name, "captions");
  EXPECT_THAT(captions.paths, ElementsAre("shards/{00000..00999}.tar"));
  EXPECT_EQ(captions.text, "json[caption]");
  EXPECT_EQ(captions.ignore_parts, std::nullopt);
  EXPECT_THAT(captions.schedule.points, ElementsAre(Breakpoint{0, 3}));
  EXPECT_FALSE(captions.schedule.ramp);
  EXPECT_EQ(captions.epochs, 0U);
  EXPECT_EQ(captions.place, "jobs/mixture.toml:4: source 'captions'");
  const SourceDescription& documents = mixture.sources[1];
  EXPECT_THAT(documents.paths, ElementsAre("data/docs.jsonl", "/more/*.jsonl"));
  EXPECT_EQ(documents.media_root, "data/media");
  EXPECT_EQ(documents.format, "records");
  EXPECT_EQ(documents.split, "train");
  EXPECT_EQ(documents.ignore_parts, "cls");
  EXPECT_EQ(documents.weight_key, "w");
  EXPECT_EQ(documents.epochs, 4U);
  EXPECT_TRUE(documents.schedule.ramp);
  EXPECT_THAT(documents.schedule.points, ElementsAre(Breakpoint{0, 1}, Breakpoint{20000, 4}));
}

TEST(MixtureFile, ProportionsMayAllBeLeftOut) {
  const auto mixture = parse_mixture(
      "[[source]]\nname = 'a'\npath = 'a'\n[[source]]\nname = 'b'\npath = 'b'\n", "m.toml");
  EXPECT_TRUE(mixture.value().sources[1].schedule.points.empty());
}

// Returns the error of a file of which `text` is all.
std::string refusal(std::string_view text) {
  const auto mixture = parse_mixture(text, "m.toml");
  if (mixture) return "accepted";
  EXPECT_THAT(mixture.error().message(), StartsWith("m.toml:"));
  return mixture.error().message();
}

// Returns the error of a source with more lines, the first of which is line 4.
std::string source_refusal(std::string_view lines) {
  return refusal("[[source]]\nname = 'a'\npath = 'a'\n" + std::string(lines));
}

TEST(MixtureFile, RefusesProportionsThatSayNothing) {
  EXPECT_EQ(source_refusal("proportion = 0"),
            "m.toml:1: source 'a': proportion: no source has a proportion above 0 at step 0: give "
            "one, or say with steps where the mixture ends");
  EXPECT_THAT(source_refusal("proportion = -1"),
              HasSubstr("m.toml:4: proportion -1 at step 0 is negative"));
  EXPECT_THAT(source_refusal("proportion = nan"), HasSubstr("m.toml:4: proportion nan at step 0"));
  EXPECT_THAT(source_refusal("proportion = inf"), HasSubstr("out of range"));
  EXPECT_THAT(source_refusal("proportion = [[5, 1], [2, 1]]"),
              HasSubstr("m.toml:4: proportion has step 2 behind step 5"));
  EXPECT_THAT(source_refusal("proportion = [[5, 1]]"), HasSubstr("at step 0"));
  EXPECT_THAT(source_refusal("proportion = [[0, 1], [9, 0]]"), HasSubstr("at step 9"));
  for (const char* value : {"'3'", "[]", "[1, 2]", "[[1]]", "[[1, 2, 3]]", "[[0.5, 1]]", "true",
                            "[[0, 'a']]", "{}", "1979-05-27"}) {
    EXPECT_THAT(source_refusal("proportion = " + std::string(value)),
                AllOf(HasSubstr("m.toml:4: proportion"), HasSubstr("[[0, 1.0], [20000, 4.0]]")))
        << value;
  }
  EXPECT_THAT(source_refusal("proportion = [[-1, 1]]"), HasSubstr("step -1 must be 0 to"));
  EXPECT_THAT(source_refusal("proportion = [[4294967296, 1]]"), HasSubstr("must be 0 to"));
  EXPECT_THAT(source_refusal("proportion = 1\n[[source]]\nname = 'b'\npath = 'b'\n"),
              HasSubstr("source 'b': it has no proportion, and others have one"));
}

TEST(MixtureFile, NamesTheKeyThatAnUnknownOneMeans) {
  EXPECT_EQ(source_refusal("proportions = 1"),
            "m.toml:4: proportions: no such key: write proportion");
  EXPECT_EQ(source_refusal("epoch = 1"), "m.toml:4: epoch: no such key: write epochs");
  EXPECT_THAT(source_refusal("colour = 1"), HasSubstr("known here are name, path, media_root"));
  EXPECT_EQ(refusal("[[sources]]\nname = 'a'"), "m.toml:1: sources: no such key: write source");
  EXPECT_EQ(refusal("skip_step = ['1']"), "m.toml:1: skip_step: no such key: write skip_steps");
}

TEST(MixtureFile, RefusesSourcesThatCannotBe) {
  EXPECT_THAT(refusal(""), HasSubstr("m.toml:1: source: a mixture has a table [[source]]"));
  EXPECT_THAT(refusal("source = []"), HasSubstr("[[source]]"));
  EXPECT_THAT(refusal("source = [1]"), HasSubstr("m.toml:1: source: must be a table"));
  EXPECT_THAT(refusal("[source]\nname = 'a'\npath = 'a'"), HasSubstr("[[source]]"));
  EXPECT_EQ(refusal("\n[[source]]\npath = 'a'"), "m.toml:2: a [[source]] needs name = \"...\"");
  EXPECT_EQ(refusal("[[source]]\nname = 'a'"), "m.toml:1: a [[source]] needs path = \"...\"");
  EXPECT_THAT(refusal("[[source]]\nname = ''\npath = 'a'"), HasSubstr("m.toml:2: name: is empty"));
  EXPECT_THAT(refusal("[[source]]\nname = 'a/b'\npath = 'a'"),
              HasSubstr("m.toml:2: name: 'a/b' contains '/'"));
  EXPECT_THAT(refusal("[[source]]\nname = 'a'\npath = []"), HasSubstr("m.toml:3: path: is empty"));
  EXPECT_THAT(refusal("[[source]]\nname = 'a'\npath = 7"),
              HasSubstr("m.toml:3: path: must be text"));
  EXPECT_THAT(source_refusal("[[source]]\nname = 'a'\npath = 'b'"),
              HasSubstr("m.toml:4: source 'a': another source has this name"));
  std::string many;
  for (int i = 0; i < 257; ++i) many += "[[source]]\nname = 'a'\npath = 'a'\n";
  EXPECT_THAT(refusal(many), HasSubstr("257 sources, and at most 256"));
}

TEST(MixtureFile, RefusesOtherValues) {
  EXPECT_THAT(source_refusal("epochs = 0"), HasSubstr("m.toml:4: epochs: must be a whole number"));
  EXPECT_THAT(source_refusal("epochs = 1.5"), HasSubstr("epochs"));
  EXPECT_THAT(source_refusal("ramp = true"), HasSubstr("m.toml:4: ramp: runs between"));
  EXPECT_THAT(source_refusal("proportion = [[0, 1]]\nramp = 1"), HasSubstr("true or false"));
  EXPECT_THAT(source_refusal("split = ''"), HasSubstr("m.toml:4: split: is empty"));
  const std::string source = "\n[[source]]\nname = 'a'\npath = 'a'\n";
  EXPECT_THAT(refusal("steps = 0" + source), HasSubstr("m.toml:1: steps: must be a whole number"));
  EXPECT_THAT(refusal("skip_steps = ['5-3']" + source),
              HasSubstr("m.toml:1: skip_steps: \"5-3\" ends before it begins"));
  EXPECT_THAT(refusal("skip_steps = [3]" + source),
              HasSubstr("m.toml:1: skip_steps: must be text"));
  EXPECT_THAT(refusal("steps = = 1"), HasSubstr("m.toml:1: "));
}

TEST(MixtureFile, ReadsAFileUpToALimit) {
  const auto scratch = ScratchDirectory::create("mixture").value();
  const std::filesystem::path file = scratch.path() / "mixture.toml";
  EXPECT_FALSE(names_mixture(file.string()));
  std::ofstream(file) << kMixture;
  EXPECT_TRUE(names_mixture(file.string()));
  EXPECT_FALSE(names_mixture(scratch.path().string()));
  EXPECT_EQ(read_mixture_file(file).value().directory, scratch.path());
  std::ofstream(file) << std::string(kMostMixtureFileBytes + 1, '\n');
  const auto large = read_mixture_file(file);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message(), HasSubstr("mixture " + file.string()));
}

TEST(NearestKey, AllowsTwoLetters) {
  constexpr std::array<std::string_view, 3> kKnown = {"name", "proportion", "ramp"};
  EXPECT_EQ(nearest_key("naem", kKnown), "name");
  EXPECT_EQ(nearest_key("proprotion", kKnown), "proportion");
  EXPECT_EQ(nearest_key("ramps", kKnown), "ramp");
  EXPECT_EQ(nearest_key("weight", kKnown), "");
  EXPECT_EQ(nearest_key("", kKnown), "");
  EXPECT_EQ(nearest_key(std::string(100'000, 'n'), kKnown), "");
}

}  // namespace
}  // namespace isocost
