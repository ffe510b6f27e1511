// The recipe of Qwen2-VL against transformers' processor: make_qwen2_vl_goldens.py made
// qwen2_vl_goldens.txt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_schema.h"
#include "decode/recipe.h"
#include "decode/shape/tokens.h"
#include "tests/support/media.h"
#include "tests/support/model_sample.h"
#include "tests/support/test_pattern.h"

namespace isocost {
namespace {

using test::values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Sample = test::ModelSample;

constexpr std::uint32_t kImage = 900;
constexpr const char* kConfig =
    R"({"model_type": "qwen2_vl", "image_token_id": 900, "vocab_size": 1000,
    "vision_config": {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}})";
constexpr const char* kProcessor =
    R"({"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136,
    "max_pixels": 1003520, "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2})";

class Qwen2Vl : public testing::Test {
 protected:
  Recipe recipe() const { return directory_.read(kConfig, kProcessor).value(); }

  test::ModelDirectory directory_;
};

TEST_F(Qwen2Vl, GridsAndPatchesAreThoseOfTransformers) {
  std::ifstream lines(ISOCOST_SOURCE_DIR "/tests/decode/recipes/qwen2_vl_goldens.txt");
  std::int64_t least = 0;
  std::int64_t most = 0;
  PartShape picture;
  picture.modality = Modality::kImage;
  picture.format = MediaFormat::kPng;
  std::int32_t rows = 0;
  std::int32_t columns = 0;
  std::uint64_t hash = 0;
  Recipe of_bounds = recipe();
  std::string before;
  int cases = 0;
  int hashed = 0;
  while (lines >> least >> most >> picture.width >> picture.height >> rows >> columns >> std::hex >>
         hash >> std::dec) {
    const std::string bounds = R"({"size": {"shortest_edge": )" + std::to_string(least) +
                               R"(, "longest_edge": )" + std::to_string(most) + "}}";
    if (bounds != before) of_bounds = directory_.read(kConfig, bounds).value();
    before = bounds;
    const SampleShape shape{{Sample({{kImage}, {false}}, {}).shape.parts[0], picture}, 1.0F};
    const auto parts = of_bounds.parts(shape).value();
    const auto size = std::to_string(picture.width) + "x" + std::to_string(picture.height);
    ASSERT_EQ(parts[1].rows, static_cast<std::uint32_t>(rows)) << size;
    ASSERT_EQ(parts[1].columns, static_cast<std::uint32_t>(columns)) << size;
    ++cases;
    if (hash == 0) continue;
    const auto rgb = test::test_pattern(picture.width, picture.height);
    Sample sample({{kImage}, {false}}, {test::make_png({picture.width, picture.height, rgb})});
    const auto tensors = sample.tensors(of_bounds);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
    EXPECT_EQ(test::fnv1a(values<std::uint8_t>(*tensors, "vision.patches")), hash) << size;
    ++hashed;
  }
  EXPECT_EQ(cases, 3637);
  EXPECT_EQ(hashed, 17);
}

TEST_F(Qwen2Vl, AnImageTakesThePlaceOfItsToken) {
  Sample sample({{5, 6, kImage, 7, kImage, 8}, {false, false, false, true, false, true}},
                {test::make_png(56, 56), test::make_png(56, 112)});
  const auto tensors = sample.tensors(recipe());
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
  const std::int64_t image = kImage;
  const std::int64_t none = kIgnoredLabel;
  EXPECT_THAT(values<std::int64_t>(*tensors, "llm.input_ids"),
              ElementsAre(5, 6, image, image, image, image, 7, image, image, image, image, image,
                          image, image, image, 8));
  EXPECT_THAT(values<std::int64_t>(*tensors, "llm.labels"),
              ElementsAre(none, none, none, none, none, none, 7, none, none, none, none, none, none,
                          none, none, 8));
  EXPECT_THAT(values<std::int32_t>(*tensors, "vision.grids"), ElementsAre(4, 4, 8, 4));
  EXPECT_THAT(values<std::int32_t>(*tensors, "vision.media"),
              ElementsAre(0, 1, 56, 56, 0, 1, 112, 56));
  const Load load = recipe().load(sample.shape).value();
  EXPECT_EQ(load[CostModule::kLlm].units, 16);
  EXPECT_EQ(load[CostModule::kVision].units, 48);
  EXPECT_EQ(load.label_tokens, 2);
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : *tensors) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, bytes);
}

TEST_F(Qwen2Vl, WeightsOfTurnsAreThoseOfTheirTokens) {
  Sample sample({.ids = {5, 6, kImage, 7, 8, 9},
                 .labelled = {false, true, false, true, true, true},
                 .weights = {{1, 2, 0.5F}, {4, 6, 3}}},
                {test::make_png(56, 56)});
  const auto tensors = sample.tensors(recipe()).value();
  EXPECT_THAT(values<float>(tensors, "llm.turn_weights"),
              ElementsAre(1, 0.5F, 1, 1, 1, 1, 1, 3, 3));
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(recipe().load(sample.shape).value().tensor_bytes, bytes);
  sample.shape.parts[0].weighted = false;
  EXPECT_THAT(sample.tensors(recipe()).error().error.message(),
              HasSubstr("not those that were counted"));
}

TEST_F(Qwen2Vl, ATurnedPictureIsThatOfItsViewer) {
  const test::Picture upright = test::gradient(90, 60, 3);
  test::Picture stored = test::gradient(60, 90, 3);  // to be turned right by a viewer
  for (std::int32_t y = 0; y < 60; ++y) {
    for (std::int32_t x = 0; x < 90; ++x) stored.set(y, 89 - x, upright.at(x, y));
  }
  constexpr int kTurnRight = 6;
  Sample turned({{kImage}, {false}},
                {test::make_jpeg(stored, {.orientation = kTurnRight, .quality = 100})});
  Sample plain({{kImage}, {false}}, {test::make_png(upright)});
  const auto seen = values<std::uint8_t>(turned.tensors(recipe()).value(), "vision.patches");
  const auto wanted = values<std::uint8_t>(plain.tensors(recipe()).value(), "vision.patches");
  ASSERT_EQ(seen.size(), wanted.size());
  int most = 0;
  for (std::size_t i = 0; i < seen.size(); ++i)
    most = std::max(most, std::abs(seen[i] - wanted[i]));
  EXPECT_LE(most, 8);  // JPEG's own losses
}

TEST_F(Qwen2Vl, AFastPictureIsAboutTheExactOne) {
  const std::string_view bounds = R"({"min_pixels": 3136, "max_pixels": 12544})";
  const Recipe exact = directory_.read(kConfig, bounds).value();
  const ModelRecipeOptions options{.directory = directory_.path(), .exactness = Exactness::kFast};
  const Recipe fast = Recipe::create(options).value();
  EXPECT_EQ(Recipe::parse(fast.description()).value().fingerprint(), fast.fingerprint());
  EXPECT_NE(fast.fingerprint(), exact.fingerprint());
  const test::Picture picture = test::gradient(900, 600, 3);
  for (const int orientation : {1, 6}) {
    Sample jpeg({{kImage}, {false}}, {test::make_jpeg(picture, {.orientation = orientation})});
    const auto wanted = values<std::uint8_t>(jpeg.tensors(exact).value(), "vision.patches");
    const auto seen = values<std::uint8_t>(jpeg.tensors(fast).value(), "vision.patches");
    ASSERT_EQ(seen.size(), wanted.size());
    EXPECT_NE(seen, wanted) << "it was scaled while it was decoded";
    int difference = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) difference += std::abs(seen[i] - wanted[i]);
    EXPECT_LE(difference, std::ssize(seen)) << "a mean of at most 1 of 255";
  }
  Sample png({{kImage}, {false}}, {test::make_png(picture)});
  EXPECT_EQ(values<std::uint8_t>(png.tensors(fast).value(), "vision.patches"),
            values<std::uint8_t>(png.tensors(exact).value(), "vision.patches"));
}

TEST_F(Qwen2Vl, ASizeOfPicturesTakesThePlaceOfTheDirectorys) {
  const std::string bounds = R"({"min_pixels": 3136, "max_pixels": 12544})";
  const Recipe wanted = directory_.read(kConfig, bounds).value();
  // Whether the directory has its bounds by these names or as a size, or has none.
  for (const char* images : {"{}", R"({"min_pixels": 56, "max_pixels": 1003520})",
                             R"({"size": {"shortest_edge": 56, "longest_edge": 1003520}})"}) {
    directory_.write("preprocessor_config.json", images);
    directory_.write("video_preprocessor_config.json", "{}");
    const ModelRecipeOptions options{.directory = directory_.path(),
                                     .image_size = {{"max_pixels", 12544}, {"min_pixels", 3136}}};
    const Recipe given = Recipe::create(options).value();
    Sample sample({{kImage}, {false}}, {test::make_png(test::gradient(900, 600, 3))});
    EXPECT_EQ(values<std::uint8_t>(sample.tensors(given).value(), "vision.patches"),
              values<std::uint8_t>(sample.tensors(wanted).value(), "vision.patches"))
        << images;
  }
  const auto refusal = [&](ImageSize size) {
    const auto made = Recipe::create(
        ModelRecipeOptions{.directory = directory_.path(), .image_size = std::move(size)});
    return made ? "" : made.error().message();
  };
  EXPECT_EQ(refusal({{"longest_edge", 9}}),
            "image_size: models of type qwen2_vl take max_pixels and min_pixels, and not "
            "longest_edge");
  EXPECT_THAT(refusal({{"max_pixels", 0}}),
              HasSubstr("preprocessor_config.json with image_size max_pixels=0: max_pixels is 0; "
                        "it must be 1 to"));
  EXPECT_THAT(refusal({{"max_pixels", 8}, {"min_pixels", 9}}),
              HasSubstr("min_pixels is 9, more than max_pixels, which is 8"));
}

TEST_F(Qwen2Vl, TransparencyIsWhiteOrIgnored) {
  test::Picture picture = test::gradient(56, 56, 3);
  const std::vector<std::uint8_t> invisible(std::size_t{56} * 56, 0);
  ModelRecipeOptions options{.directory = directory_.path()};
  ASSERT_TRUE(directory_.read(kConfig, "{}").has_value());
  const auto seen = [&](const test::Bytes& file) {
    Sample sample({{kImage}, {false}}, {file});
    return values<std::uint8_t>(sample.tensors(Recipe::create(options).value()).value(),
                                "vision.patches");
  };
  EXPECT_THAT(seen(test::make_png(picture, invisible)), Each(255));
  options.alpha = Alpha::kDrop;
  EXPECT_EQ(seen(test::make_png(picture, invisible)), seen(test::make_png(picture)));
}

TEST_F(Qwen2Vl, ItsDescriptionMakesTheSameRecipe) {
  const Recipe first = recipe();
  const Recipe again = Recipe::parse(first.description()).value();
  EXPECT_EQ(again.description(), first.description());
  EXPECT_EQ(again.fingerprint(), first.fingerprint());
  EXPECT_LT(first.description().size(), 2048U);
  EXPECT_NE(directory_.read(kConfig, R"({"min_pixels": 3137})").value().fingerprint(),
            first.fingerprint());
  EXPECT_FALSE(Recipe::parse(R"({"family": "qwen2_vl"})").has_value());
  EXPECT_FALSE(Recipe::parse(R"({"family": "none"})").has_value());
  EXPECT_FALSE(Recipe::parse("[").has_value());
}

TEST_F(Qwen2Vl, TokensThatDoNotFitTheirSampleAreCorrupt) {
  const auto fault = [&](const Tokens& tokens, std::vector<test::Bytes> pictures, int more = 0) {
    Sample sample(tokens, std::move(pictures));
    sample.shape.parts[0].text_tokens += more;
    const auto tensors = sample.tensors(recipe());
    return tensors ? "" : tensors.error().error.message();
  };
  EXPECT_THAT(fault({{5, kImage, kImage}, {false, false, false}}, {test::make_png(28, 28)}),
              HasSubstr("2 placeholders for 1 image"));
  EXPECT_THAT(fault({{5}, {false}}, {test::make_png(28, 28)}), HasSubstr("0 placeholders"));
  EXPECT_THAT(fault({{5, 6}, {true, false}}, {}), HasSubstr("a label that nothing can predict"));
  EXPECT_THAT(fault({{5, kImage}, {false, true}}, {test::make_png(28, 28)}),
              HasSubstr("a label that nothing can predict"));
  EXPECT_THAT(fault({{5, 6}, {false, true}}, {}, 1), HasSubstr("not those that were counted"));
  EXPECT_EQ(decode_tokens(std::vector<std::byte>(3)).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(decode_tokens(std::vector<std::byte>(9, std::byte{0xFF})).error().code(),
            ErrorCode::kCorrupt);
}

TEST_F(Qwen2Vl, SamplesThatTheModelCannotTakeAreRefused) {
  const auto refused = [&](PartShape part) {
    const SampleShape shape{{Sample({{5}, {false}}, {}).shape.parts[0], part}, 1.0F};
    return recipe().load(shape).error().message();
  };
  PartShape wide;
  wide.modality = Modality::kImage;
  wide.width = 402;
  wide.height = 2;
  EXPECT_THAT(refused(wide), HasSubstr("sides that differ more than 200 times"));
  PartShape video;
  video.modality = Modality::kVideo;
  EXPECT_THAT(refused(video), HasSubstr("video parts are not taken by this model"));
  PartShape text;
  EXPECT_THAT(refused(text), HasSubstr("text parts are not taken by this model"));
  PartShape image = wide;
  image.height = 100;
  EXPECT_THAT(recipe().load({{image}, 1.0F}).error().message(), HasSubstr("isocost tokenize"));
}

TEST_F(Qwen2Vl, ADirectoryIsRefusedByFileKeyAndValue) {
  EXPECT_THAT(directory_.refusal(kConfig, R"({"do_center_crop": true})"),
              HasSubstr("preprocessor_config.json: do_center_crop is true; only false"));
  EXPECT_THAT(directory_.refusal(kConfig, R"({"patch_size": 16})"), HasSubstr("patch_size is 16"));
  EXPECT_THAT(directory_.refusal(kConfig, R"({"sharpen": 2})"),
              HasSubstr("sharpen is 2; this setting is not supported"));
  EXPECT_THAT(directory_.refusal(kConfig, R"({"size": {"height": 3}})"),
              HasSubstr("size: height is 3"));
  for (const char* size : {"{}", R"({"shortest_edge": 3136})", R"({"longest_edge": 3136})"}) {
    EXPECT_THAT(directory_.refusal(kConfig, std::string(R"({"size": )") + size + "}"),
                HasSubstr("size must have shortest_edge and longest_edge"));
  }
  EXPECT_THAT(directory_.refusal(kConfig, R"({"resample": 0})"), HasSubstr("resample is 0"));
  EXPECT_THAT(directory_.refusal(kConfig, R"({"image_mean": [0.5]})"),
              HasSubstr("a list of 3 numbers"));
  EXPECT_THAT(directory_.refusal(kConfig, R"({"min_pixels": 9, "max_pixels": 8})"),
              HasSubstr("min_pixels is 9, more than max_pixels"));
  EXPECT_EQ(directory_.refusal(kConfig, R"({"crop_size": null, "do_pad": null})"), "");
  EXPECT_THAT(
      directory_.refusal(kConfig, R"({"image_processor_type": "CLIPImageProcessor"})"),
      HasSubstr("preprocessor_config.json: image_processor_type is \"CLIPImageProcessor\"; it "
                "must be one of Qwen2VLImageProcessor, "));
  for (const char* written : {"", "Fast", "Pil"}) {
    EXPECT_EQ(directory_.refusal(kConfig, R"({"image_processor_type": "Qwen2VLImageProcessor)" +
                                              std::string(written) + R"("})"),
              "");
  }
  EXPECT_THAT(directory_.refusal(R"({"model_type": "gpt2"})", kProcessor),
              HasSubstr("model_type is \"gpt2\", for which there is no recipe; there is one for "
                        "internvl, llava, "));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "qwen2_vl", "vision_config": {}})", kProcessor),
              HasSubstr("image_token_id is missing"));
  EXPECT_EQ(directory_.read().error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(directory_.refusal("[]", kProcessor), HasSubstr("config.json: no JSON object"));
  EXPECT_EQ(directory_.read().error().code(), ErrorCode::kInvalidArgument);
  std::filesystem::remove(directory_.path() / "preprocessor_config.json");
  directory_.write("config.json", kConfig);
  EXPECT_THAT(directory_.read().error().message(),
              HasSubstr("neither preprocessor_config.json nor processor_config.json"));
  directory_.write("processor_config.json", R"({"image_processor": {"min_pixels": 3136}})");
  EXPECT_TRUE(directory_.read().has_value());
  const ModelRecipeOptions none{.directory = directory_.path() / "none"};
  EXPECT_THAT(Recipe::create(none).error().message(), HasSubstr("config.json: no such file"));
  EXPECT_THAT(Recipe::create(none).error().message(), Not(HasSubstr("hf download")));
}

TEST_F(Qwen2Vl, ANameOfTheHubIsToldHowToBecomeADirectory) {
  const ModelRecipeOptions name{.directory = "Qwen/Qwen3.5-4B"};
  EXPECT_THAT(Recipe::create(name).error().message(),
              HasSubstr("`hf download Qwen/Qwen3.5-4B --include '*.j*' --local-dir DIR` makes a "
                        "directory"));
  for (const char* path : {"/Qwen/Qwen3.5-4B", "/4B", "./4B", "../4B", "a/b/c", "a/", "a"}) {
    const ModelRecipeOptions other{.directory = path};
    EXPECT_THAT(Recipe::create(other).error().message(), Not(HasSubstr("hf download"))) << path;
  }
}

// One token, whatever the processor's least size is.
TEST_F(Qwen2Vl, ADummyIsTheSmallestPictureThatTheModelTakes) {
  BufferPool pool;
  const auto dummy = recipe().dummy(Modality::kImage, pool);
  ASSERT_TRUE(dummy.has_value());
  EXPECT_EQ(dummy->load[CostModule::kVision], (ModuleLoad{1, 4, 16}));
  EXPECT_EQ(dummy->load[CostModule::kLlm], (ModuleLoad{1, 1, 1}));
  EXPECT_EQ(dummy->load.label_tokens, 0);
  EXPECT_EQ(dummy->part, (SamplePart{Modality::kImage, 2, 2, 1}));
  EXPECT_THAT(values<std::int64_t>(dummy->tensors, "llm.input_ids"), ElementsAre(kImage));
  EXPECT_THAT(values<std::int64_t>(dummy->tensors, "llm.labels"), ElementsAre(kIgnoredLabel));
  EXPECT_THAT(values<std::int32_t>(dummy->tensors, "llm.rope_positions"), ElementsAre(0, 0, 0));
  EXPECT_THAT(values<std::int32_t>(dummy->tensors, "vision.grids"), ElementsAre(2, 2));
  EXPECT_THAT(values<std::uint8_t>(dummy->tensors, "vision.patches"), Each(0));
  EXPECT_FALSE(recipe().dummy(Modality::kVideo, pool).has_value()) << "the model takes none";
  EXPECT_FALSE(recipe().dummy(Modality::kText, pool).has_value());
}

TEST_F(Qwen2Vl, PicturesKeepTheLimit) { test::expect_limits_of_pictures(recipe(), kImage); }

}  // namespace
}  // namespace isocost
