// The recipe of InternVL against transformers' processor: make_internvl_goldens.py made
// internvl_goldens.txt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/tensor_schema.h"
#include "decode/recipe.h"
#include "decode/resize/patch_grid.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tokens.h"
#include "tests/support/media.h"
#include "tests/support/model_sample.h"
#include "tests/support/test_pattern.h"

namespace isocost {
namespace {

using test::ModelSample;
using test::values;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::uint32_t kImage = 900;
constexpr std::int64_t kBegin = 901;
constexpr std::int64_t kEnd = 902;

std::string config(std::int64_t side, std::string_view more = "") {
  const std::string sides = std::to_string(side) + ", " + std::to_string(side);
  return R"({"model_type": "internvl", "image_token_id": 900, "downsample_ratio": 0.5,
      "vision_config": {"patch_size": [14, 14], "image_size": [)" +
         sides + "]}" + std::string(more) + "}";
}
std::string processor(std::int64_t side, std::int64_t least = 1, std::int64_t most = 12,
                      std::string_view more = "") {
  return R"({"image_processor_type": "GotOcr2ImageProcessorFast", "crop_to_patches": false,
      "size": {"height": )" +
         std::to_string(side) + R"(, "width": )" + std::to_string(side) + R"(}, "min_patches": )" +
         std::to_string(least) + R"(, "max_patches": )" + std::to_string(most) + std::string(more) +
         "}";
}
std::string sequence(std::int64_t length) {
  return R"({"processor_class": "InternVLProcessor", "image_seq_length": )" +
         std::to_string(length) + "}";
}

class InternVl : public testing::Test {
 protected:
  InternVl() {
    directory_.write("tokenizer_config.json", R"({"extra_special_tokens": {
        "start_image_token": "<img>", "end_image_token": {"content": "</img>"}}})");
    directory_.write("tokenizer.json", R"({"model": {"vocab": {"a": 0}}, "added_tokens": [
        {"id": 900, "content": "<IMG_CONTEXT>"}, {"id": 901, "content": "<img>"},
        {"id": 902, "content": "</img>"}]})");
  }
  Recipe recipe(std::int64_t side, std::int64_t least = 1, std::int64_t most = 12) const {
    directory_.write("processor_config.json", sequence(side / kGroupSide * (side / kGroupSide)));
    return directory_.read(config(side), processor(side, least, most)).value();
  }

  test::ModelDirectory directory_;
};

std::uint64_t hash_of_tiles(const std::vector<NamedTensor>& tensors, std::int32_t side) {
  const auto patches = values<std::uint8_t>(tensors, "vision.patches");
  const auto tile = static_cast<std::ptrdiff_t>(side) * side * 3;
  std::vector<std::uint8_t> pixels;
  for (auto at = patches.begin(); at != patches.end(); at += tile) {
    const auto rgb = test::picture_of({at, at + tile}, side / kPatchSide, side, side);
    pixels.insert(pixels.end(), rgb.begin(), rgb.end());
  }
  return test::fnv1a(pixels);
}

TEST_F(InternVl, ASizeOfPicturesIsANumberOfTiles) {
  const std::string wanted = recipe(448, 2, 4).description();
  recipe(448);
  const auto made = [&](ImageSize size) {
    return Recipe::create(
        {ModelRecipeOptions{.directory = directory_.path(), .image_size = std::move(size)}});
  };
  EXPECT_EQ(made({{"min_patches", 2}, {"max_patches", 4}}).value().description(), wanted);
  EXPECT_THAT(made({{"max_pixels", 9}}).error().message(),
              HasSubstr("models of type internvl take max_patches and min_patches, and not "
                        "max_pixels"));
  EXPECT_THAT(made({{"max_patches", 0}}).error().message(),
              HasSubstr("with image_size max_patches=0: max_patches is 0; it must be 1 to 256"));
}

TEST_F(InternVl, TilesAreThoseOfTransformers) {
  std::ifstream lines(ISOCOST_SOURCE_DIR "/tests/decode/recipes/internvl_goldens.txt");
  std::int32_t side = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
  PartShape picture;
  picture.modality = Modality::kImage;
  picture.format = MediaFormat::kPng;
  std::uint32_t tiles = 0;
  std::uint64_t hash = 0;
  Recipe of_bounds = recipe(448);
  std::string before;
  int cases = 0;
  int hashed = 0;
  while (lines >> side >> least >> most >> picture.width >> picture.height >> tiles >> std::hex >>
         hash >> std::dec) {
    const std::string bounds = processor(side, least, most);
    if (bounds != before) of_bounds = recipe(side, least, most);
    before = bounds;
    const SampleShape shape{{ModelSample({{kImage}, {false}}, {}).shape.parts[0], picture}, 1.0F};
    const auto parts = of_bounds.parts(shape).value();
    const auto size = std::to_string(picture.width) + "x" + std::to_string(picture.height) +
                      " in " + std::to_string(least) + " to " + std::to_string(most);
    ASSERT_EQ(parts[1].frames, tiles) << size;
    ++cases;
    if (hash == 0) continue;
    const auto rgb = test::test_pattern(picture.width, picture.height);
    ModelSample sample({{kImage}, {false}}, {test::make_png({picture.width, picture.height, rgb})});
    const auto tensors = sample.tensors(of_bounds);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
    EXPECT_EQ(hash_of_tiles(*tensors, side), hash) << size;
    ++hashed;
  }
  EXPECT_EQ(cases, 4227);
  EXPECT_EQ(hashed, 477);
}

TEST_F(InternVl, AnImageIsItsTilesBetweenTwoTokens) {
  ModelSample sample({{5, kImage, 7, kImage, 8}, {false, false, true, false, true}},
                     {test::make_png(28, 28), test::make_png(56, 28)});
  const auto tensors = sample.tensors(recipe(28)).value();
  const std::int64_t image = kImage;
  const std::int64_t none = kIgnoredLabel;
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.input_ids"),
              ElementsAre(5, kBegin, image, kEnd, 7, kBegin, image, image, image, kEnd, 8));
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.labels"),
              ElementsAre(none, none, none, none, 7, none, none, none, none, none, 8));
  EXPECT_THAT(values<std::int32_t>(tensors, "vision.lengths"), ElementsAre(4, 4, 4, 4));
  const Load load = recipe(28).load(sample.shape).value();
  EXPECT_EQ(load[CostModule::kVision].sequences, 4);
  EXPECT_EQ(load[CostModule::kVision].units, 16);
  EXPECT_EQ(load[CostModule::kLlm].units, 11);
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, bytes);
}

TEST_F(InternVl, ATileOf448PixelsIs256Tokens) {
  ModelSample sample({{kImage}, {false}}, {test::make_png(60, 40)});
  directory_.write("processor_config.json", "{}");
  const Recipe plain = directory_.read(config(448), processor(448)).value();
  EXPECT_EQ(plain.load(sample.shape).value()[CostModule::kLlm].units, 7 * 256 + 2);
  EXPECT_THAT(values<std::int32_t>(sample.tensors(plain).value(), "vision.lengths"),
              AllOf(SizeIs(7), Each(1024)));
}

TEST_F(InternVl, ItsDescriptionMakesTheSameRecipe) {
  const Recipe first = recipe(448);
  const Recipe again = Recipe::parse(first.description()).value();
  EXPECT_EQ(again.fingerprint(), first.fingerprint());
  EXPECT_LT(first.description().size(), 2048U);
  EXPECT_NE(recipe(448, 1, 6).fingerprint(), first.fingerprint());
  EXPECT_FALSE(Recipe::parse(R"({"family": "internvl"})").has_value());
}

TEST_F(InternVl, ADirectoryIsRefusedByFileKeyAndValue) {
  const auto refusal = [&](std::string_view more) {
    return directory_.refusal(config(448), processor(448, 1, 12, more));
  };
  EXPECT_EQ(refusal(""), "");
  EXPECT_THAT(refusal(R"(, "resample": 2)"), HasSubstr("resample is 2; only 3"));
  EXPECT_THAT(refusal(R"(, "do_pad": true)"), HasSubstr("do_pad is true"));
  EXPECT_THAT(refusal(R"(, "use_thumbnail": false)"), HasSubstr("use_thumbnail is false"));
  EXPECT_THAT(directory_.refusal(config(448), processor(448, 1, 257)),
              HasSubstr("max_patches is 257; it must be 1 to 256"));
  EXPECT_THAT(directory_.refusal(config(448), R"({"image_processor_type": "CLIPImageProcessor"})"),
              HasSubstr("must be one of GotOcr2ImageProcessor, "));
  EXPECT_THAT(directory_.refusal(config(448), processor(336)),
              HasSubstr("image_size is 448, and the image processor makes tiles of 336x336"));
  EXPECT_THAT(directory_.refusal(config(434), processor(434)),
              HasSubstr("patch_size is 14 and image_size 434; only patches of 14 pixels"));
  EXPECT_THAT(directory_.refusal(config(448, R"(, "downsample_ratio": 0.25)"), processor(448)),
              HasSubstr("downsample_ratio is 0.25; only 0.5"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "internvl", "image_token_id": 1,
                  "vision_config": {"patch_size": [14, 16]}})",
                                 processor(448)),
              HasSubstr("patch_size has two different sides"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "internvl_chat"})", processor(448)),
              HasSubstr("whose name ends in -hf"));
  directory_.write("processor_config.json", sequence(64));
  EXPECT_THAT(refusal(""), HasSubstr("image_seq_length is 64; it must be 256"));
}

// Its processor samples only by fps or num_frames: bounds of their number would be without effect.
TEST_F(InternVl, NothingCapsTheFramesOfAVideo) {
  directory_.write("tokenizer_config.json",
                   R"({"extra_special_tokens": {"start_image_token": "<img>",
      "end_image_token": "</img>", "video_token": "<IMG_CONTEXT>"}})");
  const auto refusal = [&](std::string_view video_processor) {
    directory_.write("video_preprocessor_config.json", video_processor);
    return directory_.refusal(config(448), processor(448));
  };
  for (const char* key : {"min_frames", "max_frames"}) {
    EXPECT_THAT(refusal(R"({")" + std::string(key) + R"(": 8})"),
                HasSubstr("video_preprocessor_config.json: " + std::string(key) + " is 8; this"));
  }
  EXPECT_EQ(refusal(R"({"fps": 3})"), "");
  EXPECT_THAT(refusal(R"({"video_processor_type": "Qwen2VLVideoProcessor"})"),
              HasSubstr("must be one of InternVLVideoProcessor"));
  EXPECT_EQ(refusal(R"({"video_processor_type": "InternVLVideoProcessor"})"), "");
  const Recipe read = directory_.read(config(448), processor(448)).value();
  const Recipe parsed = Recipe::parse(read.description()).value();
  EXPECT_EQ(parsed.text_settings(), read.text_settings());
  EXPECT_EQ(parsed.fingerprint(), read.fingerprint());
}

TEST_F(InternVl, ItsTokensMustBeNamedAndThere) {
  const auto refusal = [&] { return directory_.refusal(config(448), processor(448)); };
  directory_.write("tokenizer_config.json", R"({"start_image_token": "<img>"})");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer_config.json: it names no end_image_token"));
  directory_.write("tokenizer_config.json",
                   R"({"start_image_token": "<img>", "end_image_token": "<none>"})");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json: it has no added token <none>"));
  directory_.write("tokenizer.json", R"({"added_tokens": [{"id": "1", "content": "<img>"}, 3]})");
  EXPECT_THAT(refusal(), HasSubstr("it has no added token <img>"));
  directory_.write("tokenizer.json", R"({"added_tokens": 3})");
  EXPECT_THAT(refusal(), HasSubstr("it has no added_tokens"));
  directory_.write("tokenizer.json", "[");
  EXPECT_THAT(refusal(), HasSubstr("it has no added_tokens"));
  std::filesystem::remove(directory_.path() / "tokenizer.json");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json: cannot be read"));
}

TEST_F(InternVl, PicturesKeepTheLimit) { test::expect_limits_of_pictures(recipe(28), kImage); }

}  // namespace
}  // namespace isocost
