// The recipe of LLaVA against transformers' processors: make_llava_goldens.py made
// llava_goldens.txt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/tensor_schema.h"
#include "decode/recipe.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tokens.h"
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

std::string config(std::string_view encoder, std::int64_t side, std::string_view strategy) {
  return R"({"model_type": "llava", "image_token_index": 900, "image_seq_length": 576,
      "vision_feature_select_strategy": ")" +
         std::string(strategy) + R"(", "vision_config": {"model_type": ")" + std::string(encoder) +
         R"(", "patch_size": 14, "image_size": )" + std::to_string(side) + "}}";
}
std::string clip_config(std::int64_t side) { return config("clip_vision_model", side, "default"); }
std::string siglip_config(std::int64_t side) { return config("siglip_vision_model", side, "full"); }

std::string size_of(std::int64_t width, std::int64_t height) {
  return R"({"width": )" + std::to_string(width) + R"(, "height": )" + std::to_string(height) + "}";
}
std::string edge_of(std::int64_t edge) {
  return R"({"shortest_edge": )" + std::to_string(edge) + "}";
}
std::string clip(const std::string& size, const std::string& crop, std::string_view more = "") {
  return R"({"image_processor_type": "CLIPImageProcessor", "size": )" + size +
         R"(, "crop_size": )" + crop + std::string(more) + "}";
}
std::string siglip(const std::string& size) {
  return R"({"image_processor_type": "SiglipImageProcessorFast", "size": )" + size + "}";
}

class Llava : public testing::Test {
 protected:
  Recipe clip_recipe(std::int64_t side = 336) const {
    return directory_.read(clip_config(side), clip(edge_of(side), size_of(side, side))).value();
  }
  static std::int64_t tokens_of(const Recipe& recipe) {
    ModelSample sample({{kImage}, {false}}, {test::make_png(60, 40)});
    return recipe.load(sample.shape).value()[CostModule::kLlm].units;
  }

  test::ModelDirectory directory_;
};

TEST_F(Llava, PixelsAreThoseOfTransformers) {
  std::ifstream lines(ISOCOST_SOURCE_DIR "/tests/decode/recipes/llava_goldens.txt");
  std::int64_t edge = 0;
  std::int64_t fixed_width = 0;
  std::int64_t fixed_height = 0;
  std::int32_t crop_width = 0;
  std::int32_t crop_height = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint64_t hash = 0;
  int cases = 0;
  while (lines >> edge >> fixed_width >> fixed_height >> crop_width >> crop_height >> width >>
         height >> std::hex >> hash >> std::dec) {
    const std::string size = edge > 0 ? edge_of(edge) : size_of(fixed_width, fixed_height);
    const auto side = crop_width > 0 ? crop_width : static_cast<std::int32_t>(fixed_width);
    const Recipe recipe =
        (crop_width > 0
             ? directory_.read(clip_config(side), clip(size, size_of(crop_width, crop_height)))
             : directory_.read(siglip_config(side), siglip(size)))
            .value();
    const auto rgb = test::test_pattern(width, height);
    ModelSample sample({{kImage}, {false}}, {test::make_png({width, height, rgb})});
    const auto tensors = sample.tensors(recipe);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
    const auto grid = values<std::int32_t>(*tensors, "vision.grids");
    const auto seen =
        test::picture_of(values<std::uint8_t>(*tensors, "vision.patches"), grid[1], side, side);
    EXPECT_EQ(test::fnv1a(seen), hash)
        << size << ' ' << crop_width << 'x' << crop_height << " of " << width << 'x' << height;
    ++cases;
  }
  EXPECT_EQ(cases, 265);
}

TEST_F(Llava, AnImageTakesAsManyTokensAsItsEncoderMakes) {
  EXPECT_EQ(tokens_of(clip_recipe()), 576);
  EXPECT_EQ(tokens_of(clip_recipe(224)), 256);
  const std::string pixels = clip(edge_of(336), size_of(336, 336));
  EXPECT_EQ(tokens_of(directory_.read(config("clip_vision_model", 336, "full"), pixels).value()),
            577);
  const std::string fixed = siglip(size_of(384, 384));
  EXPECT_EQ(tokens_of(directory_.read(siglip_config(384), fixed).value()), 729);
  EXPECT_EQ(
      tokens_of(directory_.read(config("siglip_vision_model", 384, "default"), fixed).value()),
      728);
}

TEST_F(Llava, TokensAndLoadAgreeWithTensors) {
  ModelSample sample({{5, kImage, 7, kImage, 8}, {false, false, true, false, true}},
                     {test::make_png(56, 56), test::make_jpeg(300, 20)});
  const Recipe recipe = clip_recipe(28);
  const auto tensors = sample.tensors(recipe).value();
  const std::int64_t image = kImage;
  const std::int64_t none = kIgnoredLabel;
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.input_ids"),
              ElementsAre(5, image, image, image, image, 7, image, image, image, image, 8));
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.labels"),
              ElementsAre(none, none, none, none, none, 7, none, none, none, none, 8));
  EXPECT_THAT(values<std::int32_t>(tensors, "vision.grids"), Each(2));
  const Load load = recipe.load(sample.shape).value();
  EXPECT_EQ(load[CostModule::kVision].sequences, 2);
  EXPECT_EQ(load[CostModule::kVision].units, 8);
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, bytes);
}

TEST_F(Llava, AStripCostsWhatIsSeenOfIt) {
  ModelSample sample({{kImage}, {false}}, {test::make_png(2, 4000)});
  EXPECT_LT(clip_recipe().working_set_bytes(sample.shape).value(), 8 << 20);
  EXPECT_TRUE(sample.tensors(clip_recipe()).has_value());
  sample.shape.parts[1].width = 1 << 30;
  sample.shape.parts[1].height = 3;
  EXPECT_THAT(clip_recipe().load(sample.shape).error().message(),
              HasSubstr("sides differ too much to be resized"));
}

TEST_F(Llava, ItsDescriptionMakesTheSameRecipe) {
  const Recipe first = clip_recipe();
  const Recipe again = Recipe::parse(first.description()).value();
  EXPECT_EQ(again.fingerprint(), first.fingerprint());
  EXPECT_LT(first.description().size(), 2048U);
  EXPECT_NE(clip_recipe(224).fingerprint(), first.fingerprint());
  EXPECT_FALSE(Recipe::parse(R"({"family": "llava"})").has_value());
}

TEST_F(Llava, OtherMediaAreRefused) {
  PartShape video;
  video.modality = Modality::kVideo;
  SampleShape shape = ModelSample({{5}, {false}}, {}).shape;
  shape.parts.push_back(video);
  EXPECT_THAT(clip_recipe().load(shape).error().message(),
              HasSubstr("video parts are not taken by this model"));
}

TEST_F(Llava, ADirectoryIsRefusedByFileKeyAndValue) {
  const std::string model = clip_config(336);
  const std::string crop = size_of(336, 336);
  const std::string pixels = clip(edge_of(336), crop);
  const auto refusal = [&](std::string_view more) {
    return directory_.refusal(model, clip(edge_of(336), crop, more));
  };
  EXPECT_EQ(refusal(""), "");
  EXPECT_THAT(refusal(R"(, "do_pad": true)"), HasSubstr("do_pad is true; only false"));
  EXPECT_THAT(refusal(R"(, "do_resize": false)"), HasSubstr("do_resize is false"));
  EXPECT_THAT(refusal(R"(, "do_center_crop": 1)"), HasSubstr("it must be true or false"));
  EXPECT_THAT(refusal(R"(, "do_center_crop": false)"), HasSubstr("leaves pictures in many sizes"));
  EXPECT_THAT(refusal(R"(, "sharpen": 2)"), HasSubstr("sharpen is 2"));
  EXPECT_THAT(directory_.refusal(model, R"({"size": 336})"),
              HasSubstr("image_processor_type is missing; it must be one of CLIPImageProcessor, "));
  EXPECT_THAT(directory_.refusal(model, R"({"image_processor_type": "ViTImageProcessor"})"),
              HasSubstr(R"(image_processor_type is "ViTImageProcessor")"));
  EXPECT_THAT(directory_.refusal(model, clip("336", crop)), HasSubstr("it must be an object"));
  EXPECT_THAT(directory_.refusal(model, clip(R"({"shortest_edge": 9, "longest_edge": 9})", crop)),
              HasSubstr("size: longest_edge is 9"));
  EXPECT_THAT(directory_.refusal(siglip_config(384), siglip(edge_of(384))),
              HasSubstr("size: width is missing"));
  EXPECT_THAT(directory_.refusal(clip_config(224), pixels),
              HasSubstr("vision_config: image_size is 224, and the image processor makes pictures "
                        "of 336x336"));
  EXPECT_THAT(directory_.refusal(config("pixtral", 336, "default"), pixels),
              HasSubstr(R"(model_type is "pixtral"; it must be one of clip_vision_model, )"));
  EXPECT_THAT(directory_.refusal(config("clip_vision_model", 336, "cls"), pixels),
              HasSubstr(R"(vision_feature_select_strategy is "cls")"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "llava", "image_token_id": 3,
                                     "vision_config": {"image_size": 336}})",
                                 pixels),
              HasSubstr("patch_size is missing; it must be 14"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "llava", "vision_config": {}})", pixels),
              HasSubstr("image_token_index is missing"));
}

TEST_F(Llava, ItsProcessorMustCountAsTheModelDoes) {
  const auto refusal = [&](std::string_view processor) {
    directory_.write("processor_config.json", processor);
    return directory_.refusal(clip_config(336), clip(edge_of(336), size_of(336, 336)));
  };
  EXPECT_EQ(
      refusal(R"({"num_additional_image_tokens": 1, "patch_size": 14, "image_token": "<image>",
                        "vision_feature_select_strategy": "default",
                        "processor_class": "LlavaProcessor"})"),
      "");
  EXPECT_THAT(refusal(R"({"num_additional_image_tokens": 0})"),
              HasSubstr("processor_config.json: num_additional_image_tokens is 0; only 1"));
  EXPECT_THAT(refusal(R"({"patch_size": 16})"), HasSubstr("patch_size is 16; only 14"));
  EXPECT_THAT(refusal(R"({"vision_feature_select_strategy": "full"})"),
              HasSubstr(R"(is "full"; only "default")"));
  EXPECT_THAT(refusal(R"({"crop": 1})"), HasSubstr("crop is 1"));
}

TEST_F(Llava, PicturesKeepTheLimit) { test::expect_limits_of_pictures(clip_recipe(28), kImage); }

}  // namespace
}  // namespace isocost
