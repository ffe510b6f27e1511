// The recipe of Whisper. Its features are those of Qwen2-Audio, whose test compares them with
// transformers' extractor, which both models share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/tensor_schema.h"
#include "decode/recipe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tokens.h"
#include "tests/decode/recipes/test_sound.h"
#include "tests/support/av_media.h"
#include "tests/support/model_sample.h"

namespace isocost {
namespace {

using test::ModelSample;
using test::values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string config(std::int64_t bins, std::string_view more = "") {
  return R"({"model_type": "whisper", "decoder_start_token_id": 900, "max_target_positions": 8,
             "num_mel_bins": )" +
         std::to_string(bins) + std::string(more) + "}";
}
std::string extractor(std::int64_t bins, std::string_view more = "") {
  return R"({"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": )" +
         std::to_string(bins) + std::string(more) + "}";
}

/// A start token, so many others, each labelled.
Tokens transcript(std::uint32_t others) {
  Tokens tokens{{900}, {false}};
  for (std::uint32_t i = 0; i < others; ++i) {
    tokens.ids.push_back(i);
    tokens.labelled.push_back(true);
  }
  return tokens;
}

/// A sample of these tokens and media, none of which stands in the text.
ModelSample sample_of(const Tokens& tokens, std::vector<test::Bytes> media) {
  ModelSample sample(tokens, std::move(media));
  sample.shape.parts.front().text_tokens = std::ssize(tokens.ids);
  return sample;
}

test::Bytes sound(std::int64_t frames, std::int32_t rate = 16'000) {
  return test::make_wav(test::test_sound(1, 1, frames), rate, 1);
}

PartShape sound_shape(std::int64_t frames, std::int32_t rate = 16'000) {
  PartShape part;
  part.modality = Modality::kAudio;
  part.format = MediaFormat::kWav;
  part.sample_rate = rate;
  part.channels = 1;
  part.frames = frames;
  return part;
}

class Whisper : public testing::Test {
 protected:
  Recipe recipe(std::int64_t bins = 80) const {
    return directory_.read(config(bins), extractor(bins)).value();
  }
  std::string refusal(const SampleShape& shape) const {
    const auto load = recipe().load(shape);
    return load ? "" : load.error().message();
  }
  test::ModelDirectory directory_;
};

TEST_F(Whisper, FeaturesAreThoseOfTheSameExtractor) {
  for (const std::int64_t bins : {80, 128}) {
    test::ModelDirectory other;
    const Recipe qwen = other
                            .read(R"({"model_type": "qwen2_audio", "audio_token_index": 900,
                                      "audio_config": {"num_mel_bins": )" +
                                      std::to_string(bins) + "}}",
                                  extractor(bins))
                            .value();
    for (const std::int64_t frames : {961, 16'000, 479'999, 480'000}) {
      SCOPED_TRACE(frames);
      ModelSample own = sample_of(transcript(3), {sound(frames)});
      ModelSample theirs({{900, 5}, {false, true}}, {sound(frames)});
      const auto found = own.tensors(recipe(bins)).value();
      const auto wanted = theirs.tensors(qwen).value();
      EXPECT_EQ(values<float>(found, "audio.mel"), values<float>(wanted, "audio.mel"));
      EXPECT_EQ(values<std::int32_t>(found, "audio.lengths"),
                values<std::int32_t>(wanted, "audio.lengths"));
    }
  }
}

TEST_F(Whisper, TokensAndLoadAgreeWithTensors) {
  ModelSample sample = sample_of(transcript(3), {sound(1280)});
  const auto tensors = sample.tensors(recipe()).value();
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.input_ids"), ElementsAre(900, 0, 1, 2));
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.labels"), ElementsAre(kIgnoredLabel, 0, 1, 2));
  EXPECT_THAT(values<std::int32_t>(tensors, "audio.lengths"), ElementsAre(8 + 3));
  const Load load = recipe().load(sample.shape).value();
  EXPECT_EQ(load[CostModule::kAudio].sequences, 1);
  EXPECT_EQ(load[CostModule::kAudio].units, 1500);  // the encoder hears 30 s
  EXPECT_EQ(load[CostModule::kLlm].units, 4);
  EXPECT_EQ(load.label_tokens, 3);
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, bytes);
  EXPECT_EQ(recipe().placeholders(sample.shape.parts[1]).value(), 0);
}

TEST_F(Whisper, ASampleIsOneSoundAndItsTranscript) {
  SampleShape shape = sample_of(transcript(3), {}).shape;
  EXPECT_EQ(refusal(shape), "the sample has 0 sounds, and Whisper takes exactly one");
  shape.parts.push_back(sound_shape(1));
  EXPECT_EQ(refusal(shape), "");
  shape.parts.push_back(sound_shape(1));
  EXPECT_EQ(refusal(shape), "the sample has 2 sounds, and Whisper takes exactly one");
  shape.parts.back() = {};
  shape.parts.back().modality = Modality::kImage;
  EXPECT_THAT(refusal(shape), HasSubstr("image parts are not taken by this model"));
}

TEST_F(Whisper, SoundsOver30SecondsAreRefused) {
  SampleShape shape = sample_of(transcript(3), {}).shape;
  shape.parts.push_back(sound_shape(480'000));
  EXPECT_EQ(refusal(shape), "");
  shape.parts.back() = sound_shape(480'001);
  EXPECT_THAT(refusal(shape), HasSubstr("a sound of 30.0000625 s: Whisper hears 30 s"));
  shape.parts.back() = sound_shape(44'100 * 30, 44'100);
  EXPECT_EQ(refusal(shape), "");
  shape.parts.back() = sound_shape(std::int64_t{1} << 62, 1);
  EXPECT_THAT(refusal(shape), HasSubstr("Whisper hears 30 s"));
  shape.parts.back() = sound_shape(0);
  EXPECT_EQ(refusal(shape), "audio part without samples");
}

TEST_F(Whisper, TheDecoderReadsAllTokensButTheLast) {
  SampleShape shape = sample_of(transcript(8), {}).shape;
  shape.parts.push_back(sound_shape(1));
  EXPECT_EQ(refusal(shape), "");
  shape.parts.front() = sample_of(transcript(9), {}).shape.parts.front();
  EXPECT_THAT(refusal(shape), HasSubstr("its transcript makes 9 tokens for the decoder, which has "
                                        "max_target_positions = 8"));
}

TEST_F(Whisper, TokensOtherThanCountedAreRefused) {
  ModelSample sample = sample_of(transcript(3), {sound(1280)});
  --sample.shape.parts.front().text_tokens;
  EXPECT_THAT(sample.tensors(recipe()).error().error.message(),
              HasSubstr("its tokens are not those that were counted"));
}

TEST_F(Whisper, ItsDescriptionMakesTheSameRecipe) {
  const Recipe first = recipe();
  EXPECT_EQ(Recipe::parse(first.description()).value().fingerprint(), first.fingerprint());
  EXPECT_NE(recipe(128).fingerprint(), first.fingerprint());
  EXPECT_FALSE(Recipe::parse(R"({"family": "whisper"})").has_value());
  for (const std::string_view wrong :
       {R"("mel_bins": 81)", R"("max_target_positions": 0)", R"("decoder_start_token_id": -1)"}) {
    std::string description =
        R"({"family": "whisper", "is_multilingual": true, )" + std::string(wrong);
    for (const std::string_view right :
         {R"("mel_bins": 80)", R"("max_target_positions": 8)", R"("decoder_start_token_id": 9)"}) {
      if (right.substr(0, 12) != wrong.substr(0, 12)) description += ", " + std::string(right);
    }
    const auto parsed = Recipe::parse(description + "}");
    ASSERT_FALSE(parsed.has_value()) << description;
    EXPECT_THAT(parsed.error().message(), HasSubstr("a number is out of range")) << description;
  }
}

TEST_F(Whisper, TheTextDependsOnTheStartTokenAndTheLanguages) {
  const std::string first = recipe().text_settings();
  EXPECT_THAT(first, HasSubstr("900"));
  directory_.write("generation_config.json", R"({"is_multilingual": false})");
  EXPECT_NE(recipe().text_settings(), first);
  directory_.write("generation_config.json", R"({"is_multilingual": "no"})");
  EXPECT_THAT(directory_.refusal(config(80), extractor(80)),
              HasSubstr("generation_config.json: is_multilingual is \"no\""));
}

TEST_F(Whisper, ADirectoryIsRefusedByFileKeyAndValue) {
  const auto refused = [this](std::string_view more) {
    return directory_.refusal(config(80, more), extractor(80));
  };
  EXPECT_EQ(refused(R"(, "max_source_positions": 1500, "d_model": 4)"), "");
  EXPECT_THAT(refused(R"(, "max_source_positions": 750)"),
              HasSubstr("config.json: max_source_positions is 750; only 1500"));
  EXPECT_THAT(directory_.refusal(config(128), extractor(80)),
              HasSubstr("num_mel_bins is 128, and feature_size in"));
  EXPECT_THAT(directory_.refusal(config(80), extractor(80, R"(, "hop_length": 128)")),
              HasSubstr("hop_length is 128; only 160"));
  EXPECT_THAT(directory_.refusal(config(80), extractor(80, R"(, "echo": 2)")),
              HasSubstr("echo is 2; this setting is not supported"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "whisper"})", extractor(80)),
              HasSubstr("decoder_start_token_id is missing"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "whisper", "decoder_start_token_id": 3,
                                     "max_target_positions": 0})",
                                 extractor(80)),
              HasSubstr("max_target_positions is 0; it must be 1 to"));
}

TEST_F(Whisper, TheExtractorMayBeInTheProcessorsFile) {
  directory_.write("config.json", config(128));
  directory_.write("processor_config.json", R"({"feature_extractor": )" + extractor(128) +
                                                R"(, "processor_class": "WhisperProcessor"})");
  EXPECT_EQ(directory_.read().value().fingerprint(), recipe(128).fingerprint());
  directory_.write("processor_config.json", R"({"audio_token": 3})");
  EXPECT_THAT(directory_.refusal(config(80), extractor(80)),
              HasSubstr("processor_config.json: audio_token is 3"));
}

}  // namespace
}  // namespace isocost
