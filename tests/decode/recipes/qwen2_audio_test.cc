// The recipe of Qwen2-Audio against transformers' processor: make_qwen2_audio_goldens.py made
// qwen2_audio_goldens.txt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
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

constexpr std::uint32_t kAudio = 900;
constexpr double kMelTolerance = 1e-5;

std::string config(std::int64_t bins) {
  return R"({"model_type": "qwen2_audio", "audio_token_index": 900,
             "audio_config": {"num_mel_bins": )" +
         std::to_string(bins) + "}}";
}
std::string extractor(std::int64_t bins, std::string_view more = "") {
  return R"({"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": )" +
         std::to_string(bins) + std::string(more) + "}";
}

class Qwen2Audio : public testing::Test {
 protected:
  Recipe recipe(std::int64_t bins = 128) const {
    return directory_.read(config(bins), extractor(bins)).value();
  }
  test::ModelDirectory directory_;
};

/// The mel of a clip as the model sees it: its last row repeated up to 3,000.
class FilledMel {
 public:
  FilledMel(std::vector<float> delivered, std::int64_t bins)
      : delivered_(std::move(delivered)), bins_(bins) {}
  std::int64_t rows() const { return std::ssize(delivered_) / bins_; }
  double at(std::int64_t frame, std::int64_t bin) const {
    return delivered_[static_cast<std::size_t>(std::min(frame, rows() - 1) * bins_ + bin)];
  }
  double mean() const {
    double sum = 0;
    for (std::int64_t frame = 0; frame < 3000; ++frame) {
      for (std::int64_t bin = 0; bin < bins_; ++bin) sum += at(frame, bin);
    }
    return sum / static_cast<double>(3000 * bins_);
  }

 private:
  std::vector<float> delivered_;
  std::int64_t bins_;
};

struct Golden {
  int number = 0;
  std::int32_t rate = 0;
  std::int32_t channels = 0;
  std::int64_t frames = 0;
  std::int64_t bins = 0;
  std::int64_t tokens = 0;
  std::int64_t own_frames = 0;  // of the mask
  std::vector<double> mel;      // its mean, and some values of it; none if it is resampled
};

std::vector<Golden> goldens() {
  std::ifstream file(ISOCOST_SOURCE_DIR "/tests/decode/recipes/qwen2_audio_goldens.txt");
  std::vector<Golden> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Golden& golden = all.emplace_back();
    words >> golden.number >> golden.rate >> golden.channels >> golden.frames >> golden.bins >>
        golden.tokens >> golden.own_frames;
    for (double value = 0; words >> value;) golden.mel.push_back(value);
  }
  return all;
}

void expect_mel(const Golden& golden, const FilledMel& mel) {
  const std::int64_t own = golden.own_frames;
  const std::array<std::int64_t, 8> frames = {0, 1, own / 2, own - 1, own, own + 1, own + 2, 2999};
  ASSERT_EQ(golden.mel.size(), frames.size() + 1);
  EXPECT_NEAR(mel.mean(), golden.mel[0], kMelTolerance);
  for (std::size_t n = 0; n < frames.size(); ++n) {
    const std::int64_t bin = (7 * golden.number + 13 * static_cast<std::int64_t>(n)) % golden.bins;
    const std::int64_t frame = std::min<std::int64_t>(frames[n], 2999);
    EXPECT_NEAR(mel.at(frame, bin), golden.mel[n + 1], kMelTolerance) << "frame " << frame;
  }
}

TEST_F(Qwen2Audio, SoundsAreThoseOfTransformers) {
  const Recipe few = recipe(80);
  const Recipe many = recipe(128);
  int cases = 0;
  int exact = 0;
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.number);
    const MediaFormat format = golden.number % 2 == 0 ? MediaFormat::kWav : MediaFormat::kFlac;
    const auto sound = test::test_sound(golden.number, golden.channels, golden.frames);
    ModelSample sample({{kAudio, 5}, {false, true}},
                       {test::make_audio(format, sound, golden.rate, golden.channels)});
    const auto tensors = sample.tensors(golden.bins == 80 ? few : many);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
    const auto ids = values<std::int64_t>(*tensors, "llm.input_ids");
    EXPECT_EQ(std::ranges::count(ids, std::int64_t{kAudio}), golden.tokens);
    EXPECT_EQ(std::ssize(ids), golden.tokens + 1);
    EXPECT_THAT(values<std::int32_t>(*tensors, "audio.lengths"),
                ElementsAre(golden.own_frames + 3));
    const FilledMel mel(values<float>(*tensors, "audio.mel"), golden.bins);
    EXPECT_EQ(mel.rows(), golden.own_frames + 3);
    if (!golden.mel.empty()) {
      expect_mel(golden, mel);
      ++exact;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 200);
  EXPECT_EQ(exact, 153);
}

TEST_F(Qwen2Audio, TheFramesBehindAFullClipAreThoseOfSilence) {
  ModelSample sample({{kAudio, 5}, {false, true}},
                     {test::make_wav(test::test_sound(1, 1, 480'000), 16'000, 1)});
  const auto mel = values<float>(sample.tensors(recipe()).value(), "audio.mel");
  ASSERT_EQ(mel.size(), 3003U * 128);
  const float loudest = *std::max_element(mel.begin(), mel.end());
  for (auto value = mel.begin() + 3000 * 128; value != mel.end(); ++value) {
    ASSERT_NEAR(*value, std::max(-1.5F, loudest - 2), 1e-6);
  }
}

TEST_F(Qwen2Audio, TokensAndLoadAgreeWithTensors) {
  ModelSample sample(
      {{5, kAudio, 7, kAudio, 8}, {false, false, true, false, true}},
      {test::make_wav(test::test_sound(0, 1, 1280), 16'000, 1),
       test::make_audio(MediaFormat::kFlac, test::test_sound(2, 2, 3300), 44'100, 2)});
  const auto tensors = sample.tensors(recipe()).value();
  const std::int64_t audio = kAudio;
  const std::int64_t none = kIgnoredLabel;
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.input_ids"),
              ElementsAre(5, audio, audio, 7, audio, audio, 8));
  EXPECT_THAT(values<std::int64_t>(tensors, "llm.labels"),
              ElementsAre(none, none, none, 7, none, none, 8));
  EXPECT_THAT(values<std::int32_t>(tensors, "audio.lengths"), ElementsAre(8 + 3, 8 + 3));
  EXPECT_TRUE(values<std::int32_t>(tensors, "vision.media").empty());
  const Load load = recipe().load(sample.shape).value();
  EXPECT_EQ(load[CostModule::kAudio].sequences, 2);
  EXPECT_EQ(load[CostModule::kAudio].units, 2 * 1500);  // the encoder sees 30 s of each
  EXPECT_EQ(load[CostModule::kLlm].units, 7);
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, bytes);
}

TEST_F(Qwen2Audio, LongSoundsAreCutAndCostNoMore) {
  const auto planned = [this](std::int64_t frames) {
    SampleShape shape = ModelSample({{5}, {false}}, {}).shape;
    PartShape& part = shape.parts.emplace_back();
    part.modality = Modality::kAudio;
    part.format = MediaFormat::kWav;
    part.sample_rate = 16'000;
    part.channels = 1;
    part.frames = frames;
    return recipe().load(shape).value();
  };
  EXPECT_EQ(planned(std::int64_t{1} << 44).tensor_bytes, planned(480'000).tensor_bytes);
  EXPECT_EQ(planned(std::int64_t{1} << 44)[CostModule::kLlm].units, 751);
  EXPECT_EQ(planned(479'040)[CostModule::kLlm].units, 749);
  EXPECT_EQ(planned(479'041)[CostModule::kLlm].units, 750);
}

TEST_F(Qwen2Audio, ASoundWithoutTwoTokensIsRefused) {
  const auto refusal = [this](std::int64_t frames) {
    ModelSample sample({{kAudio, 5}, {false, true}},
                       {test::make_wav(test::test_sound(0, 1, frames), 16'000, 1)});
    const auto tensors = sample.tensors(recipe());
    return tensors ? "" : tensors.error().error.message();
  };
  EXPECT_EQ(refusal(961), "");
  EXPECT_THAT(refusal(960), HasSubstr("a sound of 960 samples at 16 kHz: at least 961 make two"));
  EXPECT_THAT(refusal(1), HasSubstr("a sound of 1 sample at 16 kHz"));
  SampleShape shape = ModelSample({{5}, {false}}, {}).shape;
  shape.parts.emplace_back().modality = Modality::kAudio;
  EXPECT_THAT(recipe().load(shape).error().message(), HasSubstr("audio part without samples"));
}

TEST_F(Qwen2Audio, ItsDescriptionMakesTheSameRecipe) {
  const Recipe first = recipe();
  EXPECT_EQ(Recipe::parse(first.description()).value().fingerprint(), first.fingerprint());
  EXPECT_NE(recipe(80).fingerprint(), first.fingerprint());
  EXPECT_FALSE(Recipe::parse(R"({"family": "qwen2_audio"})").has_value());
  EXPECT_FALSE(Recipe::parse(R"({"family": "qwen2_audio", "mel_bins": 81, "audio_token_id": 3})")
                   .has_value());
}

TEST_F(Qwen2Audio, OtherMediaAreRefused) {
  SampleShape shape = ModelSample({{5}, {false}}, {}).shape;
  shape.parts.emplace_back().modality = Modality::kImage;
  EXPECT_THAT(recipe().load(shape).error().message(),
              HasSubstr("image parts are not taken by this model"));
}

TEST_F(Qwen2Audio, ADirectoryIsRefusedByFileKeyAndValue) {
  const auto refusal = [&](std::string_view more) {
    return directory_.refusal(config(128), extractor(128, more));
  };
  EXPECT_EQ(refusal(R"(, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400,
                       "chunk_length": 30, "n_samples": 480000, "nb_max_frames": 3000,
                       "padding_side": "right", "padding_value": 0.0, "dither": 0.0,
                       "do_normalize": false, "return_attention_mask": false,
                       "processor_class": "Qwen2AudioProcessor")"),
            "");
  EXPECT_THAT(refusal(R"(, "sampling_rate": 8000)"),
              HasSubstr("preprocessor_config.json: sampling_rate is 8000; only 16000"));
  EXPECT_THAT(refusal(R"(, "hop_length": 128)"), HasSubstr("hop_length is 128; only 160"));
  EXPECT_THAT(refusal(R"(, "n_fft": 512)"), HasSubstr("n_fft is 512; only 400"));
  EXPECT_THAT(refusal(R"(, "chunk_length": 60)"), HasSubstr("chunk_length is 60; only 30"));
  EXPECT_THAT(refusal(R"(, "n_samples": 1)"), HasSubstr("n_samples is 1; only 480000"));
  EXPECT_THAT(refusal(R"(, "nb_max_frames": 1)"), HasSubstr("nb_max_frames is 1; only 3000"));
  EXPECT_THAT(refusal(R"(, "padding_side": "left")"), HasSubstr("padding_side is \"left\""));
  EXPECT_THAT(refusal(R"(, "padding_value": 1.0)"), HasSubstr("padding_value is 1.0; only 0"));
  EXPECT_THAT(refusal(R"(, "dither": 0.1)"), HasSubstr("dither is 0.1; only 0"));
  EXPECT_THAT(refusal(R"(, "do_normalize": true)"), HasSubstr("do_normalize is true; only false"));
  EXPECT_THAT(refusal(R"(, "echo": 2)"), HasSubstr("echo is 2; this setting is not supported"));
  EXPECT_THAT(directory_.refusal(config(128), R"({"feature_size": 128})"),
              HasSubstr("feature_extractor_type is missing; it must be one of Whisper"));
  EXPECT_THAT(directory_.refusal(config(96), extractor(96)),
              HasSubstr("feature_size is 96; only 128"));
  EXPECT_THAT(directory_.refusal(config(128), extractor(80)),
              HasSubstr("audio_config: num_mel_bins is 128, and feature_size in"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "qwen2_audio", "audio_token_id": 3,
                             "audio_config": {"max_source_positions": 750}})",
                                 extractor(128)),
              HasSubstr("audio_config: max_source_positions is 750; only 1500"));
  EXPECT_THAT(
      directory_.refusal(R"({"model_type": "qwen2_audio", "audio_token_id": 3})", extractor(128)),
      HasSubstr("audio_config is missing"));
  EXPECT_THAT(directory_.refusal(R"({"model_type": "qwen2_audio"})", extractor(128)),
              HasSubstr("audio_token_index is missing"));
}

TEST_F(Qwen2Audio, TheExtractorMayBeInTheProcessorsFile) {
  directory_.write("config.json", config(80));
  directory_.write("processor_config.json",
                   R"({"feature_extractor": )" + extractor(80) +
                       R"(, "audio_token": "<|AUDIO|>", "audio_bos_token": "<|audio_bos|>",
                         "audio_eos_token": "<|audio_eos|>"})");
  EXPECT_EQ(directory_.read().value().fingerprint(), recipe(80).fingerprint());
  directory_.write("processor_config.json", R"({"audio_tokens": 3})");
  EXPECT_THAT(directory_.refusal(config(80), extractor(80)),
              HasSubstr("processor_config.json: audio_tokens is 3"));
}

}  // namespace
}  // namespace isocost
