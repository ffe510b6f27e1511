// The recipe of LLaVA-OneVision against transformers' processors: make_llava_onevision_goldens.py
// made llava_onevision_goldens.txt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/load.h"
#include "base/tensor_schema.h"
#include "decode/prepare/exact_image.h"
#include "decode/recipe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tokens.h"
#include "decode/video/video.h"
#include "tests/support/av_media.h"
#include "tests/support/media.h"
#include "tests/support/model_sample.h"
#include "tests/support/test_pattern.h"

namespace isocost {
namespace {

using test::ModelSample;
using test::values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kImage = 900;
constexpr std::uint32_t kVideo = 901;

/// Canvases of 1 x 1 to `most` x `most` tiles.
std::string canvases(std::int64_t side, std::int64_t most) {
  std::string list;
  for (std::int64_t i = 1; i <= most; ++i) {
    for (std::int64_t j = 1; j <= most; ++j) {
      list += (list.empty() ? "[[" : ", [") + std::to_string(side * i) + ", " +
              std::to_string(side * j) + "]";
    }
  }
  return list + "]";
}
std::string config(std::int64_t side, const std::string& pins, std::int64_t ratio = 9,
                   std::string_view more = "") {
  return R"({"model_type": "llava_onevision", "image_token_index": 900, "video_token_index": 901,
      "vision_aspect_ratio": "anyres_max_)" +
         std::to_string(ratio) + R"(", "vision_config": {"patch_size": 14, "image_size": )" +
         std::to_string(side) + R"(}, "image_grid_pinpoints": )" + pins + std::string(more) + "}";
}
std::string images(std::int64_t side, const std::string& pins, std::string_view more = "") {
  return R"({"image_processor_type": "LlavaOnevisionImageProcessorFast", "do_pad": true,
      "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "size": {"height": )" +
         std::to_string(side) + R"(, "width": )" + std::to_string(side) +
         R"(}, "image_grid_pinpoints": )" + pins + std::string(more) + "}";
}

class LlavaOneVision : public testing::Test {
 protected:
  Recipe recipe(std::int64_t side, std::int64_t most, std::int64_t ratio = 9) const {
    directory_.write("processor_config.json",
                     R"({"num_image_tokens": )" + std::to_string(side / 14 * (side / 14)) +
                         R"(, "vision_feature_select_strategy": "full", "vision_aspect_ratio":
                         "anyres_max_)" +
                         std::to_string(ratio) + R"("})");
    write_videos(side, R"(, "num_frames": 3)");
    const std::string pins = canvases(side, most);
    return directory_.read(config(side, pins, ratio), images(side, pins)).value();
  }
  void write_videos(std::int64_t side, const std::string& more) const {
    directory_.write("video_preprocessor_config.json",
                     R"({"video_processor_type": "LlavaOnevisionVideoProcessor", "do_pad": true,
                         "size": {"height": )" +
                         std::to_string(side) + R"(, "width": )" + std::to_string(side) + "}" +
                         more + "}");
  }
  std::string refusal(const std::string& model, const std::string& pixels) const {
    return directory_.refusal(model, pixels);
  }

  test::ModelDirectory directory_;
};

SampleShape several(const PartShape& picture, std::size_t count) {
  SampleShape shape = ModelSample({{kImage}, {false}}, {}).shape;
  shape.parts.insert(shape.parts.end(), count, picture);
  return shape;
}

/// Returns a hash of the pixels of all pictures of the first image.
std::uint64_t hash_of_pictures(const std::vector<NamedTensor>& tensors, std::size_t pictures,
                               std::int32_t side) {
  const auto patches = values<std::uint8_t>(tensors, "vision.patches");
  const std::int32_t columns = values<std::int32_t>(tensors, "vision.grids")[1];
  const auto each = static_cast<std::ptrdiff_t>(columns) * columns * 588;
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < pictures; ++i) {
    const auto at = patches.begin() + static_cast<std::ptrdiff_t>(i) * each;
    const auto rgb = test::picture_of({at, at + each}, columns, side, side);
    pixels.insert(pixels.end(), rgb.begin(), rgb.end());
  }
  return test::fnv1a(pixels);
}

TEST_F(LlavaOneVision, TokensAndPixelsAreThoseOfTransformers) {
  std::ifstream lines(ISOCOST_SOURCE_DIR "/tests/decode/recipes/llava_onevision_goldens.txt");
  std::int32_t side = 0;
  std::int64_t most = 0;
  std::int64_t ratio = 0;
  std::size_t count = 0;
  PartShape picture;
  picture.modality = Modality::kImage;
  picture.format = MediaFormat::kPng;
  std::uint32_t pictures = 0;
  std::int64_t tokens = 0;
  std::uint64_t hash = 0;
  std::map<std::string, Recipe> recipes;
  int cases = 0;
  int hashed = 0;
  while (lines >> side >> most >> ratio >> count >> picture.width >> picture.height >> pictures >>
         tokens >> std::hex >> hash >> std::dec) {
    const std::string settings =
        std::to_string(side) + " " + std::to_string(most) + " " + std::to_string(ratio);
    if (!recipes.contains(settings)) recipes.emplace(settings, recipe(side, most, ratio));
    const Recipe& made = recipes.at(settings);
    const SampleShape shape = several(picture, count);
    const auto name = std::to_string(count) + " of " + std::to_string(picture.width) + "x" +
                      std::to_string(picture.height) + " in tiles of " + std::to_string(side);
    const std::int64_t of_all = made.load(shape).value()[CostModule::kLlm].units;
    ASSERT_EQ(of_all - shape.parts[0].text_tokens, tokens * static_cast<std::int64_t>(count))
        << name;
    ++cases;
    if (pictures == 0) continue;
    ASSERT_EQ(made.parts(shape).value()[1].frames, pictures) << name;
    const auto rgb = test::test_pattern(picture.width, picture.height);
    ModelSample sample({std::vector<std::uint32_t>(count, kImage), std::vector<bool>(count)},
                       std::vector(count, test::make_png({picture.width, picture.height, rgb})));
    const auto tensors = sample.tensors(made);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
    EXPECT_EQ(hash_of_pictures(*tensors, pictures, side), hash) << name;
    ++hashed;
  }
  EXPECT_EQ(cases, 3159);
  EXPECT_EQ(hashed, 276);
}

TEST_F(LlavaOneVision, AnImageAloneIsCutAndSeveralAreNot) {
  const Recipe made = recipe(28, 6);
  ModelSample one({{5, kImage, 8}, {false, false, true}}, {test::make_png(56, 28)});
  const auto cut = one.tensors(made).value();
  EXPECT_THAT(values<std::int32_t>(cut, "vision.media"), ElementsAre(0, 3, 28, 56));
  EXPECT_EQ(made.load(one.shape).value()[CostModule::kLlm].units, 2 + 4 + 2 * 4 + 2);
  ModelSample two({{5, kImage, kImage, 8}, {false, false, false, true}},
                  {test::make_png(56, 28), test::make_jpeg(20, 30)});
  const auto whole = two.tensors(made).value();
  EXPECT_THAT(values<std::int32_t>(whole, "vision.media"), ElementsAre(0, 1, 28, 56, 0, 1, 30, 20));
  EXPECT_THAT(values<std::int32_t>(whole, "vision.lengths"), Each(4));
  const Load load = made.load(two.shape).value();
  EXPECT_EQ(load[CostModule::kLlm].units, 2 + 5 + 5);
  EXPECT_EQ(load[CostModule::kVision].sequences, 2);
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : whole) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, bytes);
}

// Its frames are squares of a tile's size, whatever the aspect; an image beside it is alone.
TEST_F(LlavaOneVision, AVideoIsFramesAtEqualSteps) {
  const Recipe made = recipe(42, 2);
  test::VideoSpec spec;
  spec.width = 64;
  spec.height = 32;
  spec.frames = 8;
  const test::Bytes bytes = test::make_video(spec);
  ModelSample sample({{5, kVideo, kImage, 8}, {false, false, false, true}},
                     {bytes, test::make_png(84, 42)});
  const auto tensors = sample.tensors(made);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
  EXPECT_THAT(values<std::int32_t>(*tensors, "vision.media"),
              ElementsAre(1, 3, 32, 64, 0, 3, 42, 84));
  const Load load = made.load(sample.shape).value();
  // Three frames of 2 x 2 vectors and a line break; an image of 9, and of two tiles in three rows.
  EXPECT_EQ(load[CostModule::kLlm].units, 2 + (3 * 4 + 1) + (9 + 3 * (6 + 1)));
  EXPECT_EQ(load[CostModule::kVision].sequences, 6);
  std::int64_t size = 0;
  for (const NamedTensor& tensor : *tensors) size += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, size);
  EXPECT_THAT(made.parts(sample.shape).value()[1].timestamps_s, ElementsAre(0, 0.2, 0.5));
  const auto patches = values<std::uint8_t>(*tensors, "vision.patches");
  const auto frame_patches = static_cast<std::ptrdiff_t>(patches.size()) / 6;
  const MemoryByteSource source(bytes);
  const std::vector<std::int64_t> indices = {0, 2, 5};
  const auto compare = [&](std::size_t i, std::span<const std::uint8_t> rgb) -> Status {
    const PatchGrid grid = covering_grid(42, 42);
    std::vector<std::byte> wanted(static_cast<std::size_t>(frame_patches));
    ISOCOST_TRY(framed_patches({rgb, 64, 32}, {42, 42, {0, 0, 42, 42}}, grid, {}, wanted, {}, {}));
    const auto at = patches.begin() + static_cast<std::ptrdiff_t>(i) * frame_patches;
    EXPECT_TRUE(std::ranges::equal(std::span(wanted), std::span(at, at + frame_patches), {}, {},
                                   [](std::uint8_t value) { return std::byte{value}; }))
        << i;
    return {};
  };
  ASSERT_TRUE(exact_video_frames(source, sample.shape.parts[1], indices, compare));
}

TEST_F(LlavaOneVision, WithoutANumberOfFramesTheyAre32) {
  test::VideoSpec spec;
  spec.frames = 20;
  ModelSample sample({{kVideo}, {false}}, {test::make_video(spec)});
  recipe(28, 2);
  write_videos(28, R"(, "do_sample_frames": false)");
  const Recipe made = directory_.read().value();
  EXPECT_EQ(made.parts(sample.shape).value()[1].frames, 32U);
  EXPECT_EQ(made.load(sample.shape).value()[CostModule::kLlm].units, 32 + 1);
  ASSERT_TRUE(sample.tensors(made).has_value());
}

TEST_F(LlavaOneVision, AModelWithoutATokenForThemTakesNoVideos) {
  const std::string pins = canvases(28, 2);
  std::string model = config(28, pins);
  model.replace(model.find("video_token_index"), 17, "other_token_index");
  ModelSample sample({{kVideo}, {false}}, {test::make_video({})});
  recipe(28, 2);
  write_videos(56, "");  // nobody looks at it
  const auto load = directory_.read(model, images(28, pins)).value().load(sample.shape);
  EXPECT_THAT(load.error().message(), HasSubstr("video parts are not taken by this model"));
}

TEST_F(LlavaOneVision, AStripTooLongForASquareIsRefused) {
  const Recipe made = recipe(28, 6);
  ModelSample two({{kImage, kImage}, {false, false}},
                  {test::make_png(20'000, 2), test::make_png(56, 28)});
  const auto tensors = two.tensors(made);
  ASSERT_FALSE(tensors.has_value());
  EXPECT_EQ(tensors.error().part, 1U);
  EXPECT_THAT(tensors.error().error.message(), HasSubstr("20000x2 is too long to be made square"));
}

TEST_F(LlavaOneVision, ItsDescriptionMakesTheSameRecipe) {
  const Recipe first = recipe(384, 6);
  const Recipe again = Recipe::parse(first.description()).value();
  EXPECT_EQ(again.fingerprint(), first.fingerprint());
  EXPECT_LT(first.description().size(), 2048U);
  EXPECT_NE(recipe(384, 6, 4).fingerprint(), first.fingerprint());
  EXPECT_FALSE(Recipe::parse(R"({"family": "llava_onevision"})").has_value());
}

TEST_F(LlavaOneVision, ADirectoryIsRefusedByFileKeyAndValue) {
  const std::string pins = canvases(28, 2);
  const auto model = [&](std::string_view more) {
    return refusal(config(28, pins, 9, more), images(28, pins));
  };
  const auto pixels = [&](std::string_view more) {
    return refusal(config(28, pins), images(28, pins, more));
  };
  EXPECT_EQ(pixels(""), "");
  EXPECT_THAT(refusal(config(28, canvases(28, 3)), images(28, pins)),
              HasSubstr("config.json: image_grid_pinpoints differs from that of"));
  EXPECT_THAT(refusal(config(28, "[[28, 30]]"), images(28, "[[28, 30]]")),
              HasSubstr("has [28,30], whose sides are no multiples of the tiles' 28 pixels"));
  EXPECT_THAT(refusal(config(28, "[]"), images(28, "[]")), HasSubstr("is empty"));
  EXPECT_THAT(refusal(config(28, "[1]"), images(28, "[1]")), HasSubstr("must be pairs"));
  EXPECT_THAT(refusal(config(28, pins, 4), images(28, pins)),
              HasSubstr("its processor would count tokens of anyres_max_9"));
  EXPECT_THAT(refusal(config(384, pins), images(28, pins)), HasSubstr("image_size is 384"));
  EXPECT_THAT(model(R"(, "vision_feature_select_strategy": "default")"),
              HasSubstr("vision_feature_select_strategy is \"default\""));
  EXPECT_THAT(model(R"(, "use_image_newline_parameter": false)"),
              HasSubstr("use_image_newline_parameter is false"));
  EXPECT_THAT(pixels(R"(, "do_center_crop": true)"), HasSubstr("do_center_crop is true"));
  EXPECT_THAT(pixels(R"(, "sharpen": 2)"), HasSubstr("sharpen is 2"));
  write_videos(28, R"(, "fps": 2)");
  EXPECT_THAT(pixels(""), HasSubstr("video_preprocessor_config.json: fps is 2; the model takes "
                                    "videos of equally many frames alone: give num_frames"));
  write_videos(28, R"(, "num_frames": 0)");
  EXPECT_THAT(pixels(""), HasSubstr("num_frames is 0; it must be 1 to 65536"));
  write_videos(28, R"(, "sharpen": 3)");
  EXPECT_THAT(pixels(""), HasSubstr("sharpen is 3; this setting is not supported"));
  write_videos(384, "");
  EXPECT_THAT(pixels(""), HasSubstr("size is 384x384, while the encoder's pictures have 28"));
  write_videos(28, "");
  directory_.write("processor_config.json", R"({"num_image_tokens": 729})");
  EXPECT_THAT(pixels(""), HasSubstr("num_image_tokens is 729; it must be 4"));
}

TEST_F(LlavaOneVision, PicturesKeepTheLimit) {
  test::expect_limits_of_pictures(recipe(42, 2), kImage);
}

}  // namespace
}  // namespace isocost
