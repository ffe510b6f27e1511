// Videos of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 against transformers' processors:
// make_qwen_video_goldens.py made qwen_video_goldens.txt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_schema.h"
#include "decode/prepare/frame_sampling.h"
#include "decode/prepare/rope_positions.h"
#include "decode/recipe.h"
#include "decode/resize/pillow_resize.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/tokens.h"
#include "decode/video/video.h"
#include "tests/support/av_media.h"
#include "tests/support/media.h"
#include "tests/support/model_sample.h"
#include "tests/support/test_pattern.h"

namespace isocost {
namespace {

using test::values;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Sample = test::ModelSample;

constexpr std::uint32_t kImage = 900;
constexpr std::uint32_t kVideo = 901;

/// Whether the type has Qwen3-VL's processors.
bool is_third(const std::string& type) { return type.starts_with("qwen3"); }

std::string config(const std::string& type,
                   const std::string& experts = R"("num_experts": 4, "num_experts_per_tok": 2)") {
  const std::string patch = is_third(type) ? "16" : "14";
  return R"({"model_type": ")" + type +
         R"(", "image_token_id": 900, "video_token_id": 901, "vision_config": {"patch_size": )" +
         patch + R"(, "spatial_merge_size": 2, "temporal_patch_size": 2, "tokens_per_second": 2})" +
         (type.ends_with("_moe") ? R"(, "text_config": {)" + experts + "}}" : "}");
}

std::string processor(const std::string& type) {
  return is_third(type) ? R"({"patch_size": 16, "image_mean": [0.5, 0.5, 0.5]})" : "{}";
}

template <typename T>
std::string numbers_as_bytes(const std::vector<T>& numbers) {
  std::string bytes;
  for (const T number : numbers) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(number) >> shift & 0xFF));
    }
  }
  return bytes;
}

template <typename T>
std::uint64_t hash_of(const std::vector<T>& numbers) {
  const std::string bytes = numbers_as_bytes(numbers);
  return test::fnv1a(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
}

PartShape video_of(std::int64_t frames, std::int32_t numerator, std::int32_t denominator) {
  PartShape video;
  video.modality = Modality::kVideo;
  video.format = MediaFormat::kMp4;
  video.width = 640;
  video.height = 480;
  video.frames = frames;
  video.sample_rate = numerator;
  video.channels = denominator;
  return video;
}

/// The lines of the golden file that begin with `kind`, without it.
std::vector<std::string> goldens(const std::string& kind) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/tests/decode/recipes/qwen_video_goldens.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kind + " ")) lines.push_back(line.substr(kind.size() + 1));
  }
  return lines;
}

class QwenVideo : public testing::Test {
 protected:
  Recipe recipe(const std::string& type, const std::string& video_processor = "{}") const {
    directory_.write("video_preprocessor_config.json", video_processor);
    return directory_.read(config(type), processor(type)).value();
  }
  std::string refusal(const std::string& type, const std::string& video_processor) const {
    directory_.write("video_preprocessor_config.json", video_processor);
    return directory_.refusal(config(type), processor(type));
  }

  test::ModelDirectory directory_;
};

TEST_F(QwenVideo, FramesAreThoseThatTransformersSamples) {
  using Function = Result<std::vector<std::int64_t>> (*)(const PartShape&, const FrameSampling&);
  const std::map<std::string, Function> functions = {
      {"pairs", frames_in_pairs},
      {"last", frames_to_the_last},
      {"slices", frames_in_slices},
      {"steps", [](const PartShape& video, const FrameSampling& sampling) {
         return frames_at_steps(video, sampling.num_frames);
       }}};
  std::size_t cases = 0;
  for (const std::string& line : goldens("frames")) {
    std::istringstream in(line);
    std::string how;
    std::int64_t frames = 0;
    std::int32_t numerator = 0;
    std::int32_t denominator = 0;
    FrameSampling sampling;
    std::int64_t count = 0;
    std::uint64_t hash = 0;
    in >> how >> frames >> numerator >> denominator >> sampling.fps >> sampling.num_frames >>
        sampling.min_frames >> sampling.max_frames >> count >> std::hex >> hash;
    ASSERT_FALSE(in.fail()) << line;
    const auto sampled = functions.at(how)(video_of(frames, numerator, denominator), sampling);
    ASSERT_TRUE(sampled.has_value()) << line;
    ASSERT_EQ(std::ssize(*sampled), count) << line;
    ASSERT_EQ(hash_of(*sampled), hash) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 5212U);
}

TEST_F(QwenVideo, GridsOfFramesAreThoseOfTransformers) {
  std::size_t cases = 0;
  for (const std::string& line : goldens("grid")) {
    std::istringstream in(line);
    int generation = 0;
    std::string frames;
    PartShape video = video_of(1, 30, 1);
    std::string least;
    std::string most;
    bool cap = false;
    std::string tokens;
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;
    in >> generation >> frames >> video.width >> video.height >> least >> most >> cap >> tokens >>
        rows >> columns;
    ASSERT_FALSE(in.fail()) << line;
    video.frames = std::stoll(frames);
    const Recipe of_bounds =
        recipe(generation == 2 ? "qwen2_vl" : "qwen3_vl",
               R"({"size": {"shortest_edge": )" + least + R"(, "longest_edge": )" + most +
                   R"(}, "num_frames": )" + frames + R"(, "cap_pixels_per_frame": )" +
                   (cap ? "true" : "false") + R"(, "max_video_tokens": )" + tokens + "}");
    const SampleShape shape{{Sample({{kVideo}, {false}}, {}).shape.parts[0], video}, 1.0F};
    const auto parts = of_bounds.parts(shape);
    ASSERT_TRUE(parts.has_value()) << line << parts.error().message();
    ASSERT_EQ((*parts)[1].rows, rows) << line;
    ASSERT_EQ((*parts)[1].columns, columns) << line;
    ASSERT_EQ((*parts)[1].frames, video.frames) << line;
    ++cases;
  }
  EXPECT_GT(cases, 900U);
}

TEST_F(QwenVideo, TimesOfMRopeAreThoseOfTransformers) {
  std::size_t cases = 0;
  for (const std::string& line : goldens("times")) {
    std::istringstream in(line);
    double frames = 0;
    double numerator = 0;
    double denominator = 0;
    int sampled = 0;
    int tokens_per_second = 0;
    std::uint64_t hash = 0;
    in >> frames >> numerator >> denominator >> sampled >> tokens_per_second >> std::hex >> hash;
    ASSERT_FALSE(in.fail()) << line;
    const auto seconds = static_cast<float>(2 / (sampled / frames * (numerator / denominator)));
    const int pictures = (sampled + 1) / 2;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(pictures) * 3);
    RopePositions().pictures(rows, pictures, {2, 2},
                             static_cast<float>(tokens_per_second) * seconds);
    std::vector<std::int32_t> times;
    for (std::size_t i = 0; i < rows.size(); i += 3) times.push_back(rows[i]);
    ASSERT_EQ(hash_of(times), hash) << line;
    ++cases;
  }
  EXPECT_GT(cases, 600U);
}

// Nine frames are five pairs, of which the last has one frame twice; the patches of a pair lie
// beside each other.
TEST_F(QwenVideo, APatchSpansTwoFrames) {
  test::VideoSpec spec;
  spec.width = 64;
  spec.height = 32;
  spec.frames = 9;
  const test::Bytes bytes = test::make_video(spec);
  Sample sample({{5, kVideo, 6}, {false, false, true}}, {bytes});
  const Recipe of_all = recipe("qwen3_vl", R"({"num_frames": 9,
      "size": {"shortest_edge": 1024, "longest_edge": 1000000}})");
  // For each pair a placeholder.
  Sample split({{5, kVideo, kVideo, kVideo, kVideo, kVideo, 6},
                {false, false, false, false, false, false, true}},
               {bytes});
  split.shape.parts[0].text_tokens = 2;
  const auto tensors = split.tensors(of_all);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
  EXPECT_THAT(values<std::int32_t>(*tensors, "vision.media"), ElementsAre(1, 5, 32, 64));
  const auto patches = values<std::uint8_t>(*tensors, "vision.patches");
  constexpr std::size_t kPatch = std::size_t{16} * 16 * 3;
  ASSERT_EQ(patches.size(), 5 * 8 * 2 * kPatch);
  const MemoryByteSource source(bytes);
  std::vector<std::vector<std::uint8_t>> frames;
  const std::vector<std::int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto keep = [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
    frames.emplace_back(rgb.begin(), rgb.end());
    return {};
  };
  ASSERT_TRUE(exact_video_frames(source, split.shape.parts[1], indices, keep));
  // The top left pixel of a frame is that of its first patch.
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t at = (i / 2 * 8 * 2 + i % 2) * kPatch;
    EXPECT_EQ(patches[at], frames[std::min<std::size_t>(i, 8)][0]) << i;
  }
  const Load load = of_all.load(split.shape).value();
  EXPECT_EQ(load[CostModule::kVision].units, 5 * 8);
  EXPECT_EQ(load[CostModule::kVision].sequences, 5);
  EXPECT_EQ(load[CostModule::kLlm].units, 5 * 2 + 2);
  std::int64_t size = 0;
  for (const NamedTensor& tensor : *tensors) size += tensor.tensor.size_bytes();
  EXPECT_EQ(load.tensor_bytes, size);
  EXPECT_EQ(sample.tensors(of_all).error().error.message(),
            "its text has 1 placeholder for 1 video, which takes 5");
}

TEST_F(QwenVideo, PositionsGoOnAfterTheLargest) {
  test::VideoSpec spec;
  spec.width = 64;
  spec.height = 32;
  spec.frames = 20;  // 2 seconds
  Sample sample({{5, kVideo, 6}, {false, false, true}}, {test::make_video(spec)});
  const Recipe timed = recipe("qwen2_5_vl", R"({"fps": 3,
      "size": {"shortest_edge": 784, "longest_edge": 1600}})");
  const auto tensors = sample.tensors(timed);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
  // Six frames of two seconds, so a pair lasts 2/3 s, which are 4/3 positions. A frame is 56x28.
  EXPECT_THAT(values<std::int32_t>(*tensors, "llm.rope_positions"),
              ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 1, 1, 2, 1, 2, 3, 1, 1, 3, 1, 2, 4, 4, 4));
  const Recipe untimed = recipe("qwen2_vl", R"({"fps": 3,
      "size": {"shortest_edge": 784, "longest_edge": 1600}})");
  EXPECT_THAT(values<std::int32_t>(sample.tensors(untimed).value(), "llm.rope_positions"),
              ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 1, 1, 2, 1, 2, 3, 1, 1, 3, 1, 2, 4, 4, 4));
}

TEST_F(QwenVideo, AVideoOfOneFrameIsAPair) {
  test::VideoSpec spec;
  spec.width = 64;
  spec.height = 64;
  spec.frames = 1;
  for (const char* type :
       {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}) {
    Sample sample({{5, kVideo, 6}, {false, false, true}}, {test::make_video(spec)});
    const auto tensors = sample.tensors(recipe(type));
    ASSERT_TRUE(tensors.has_value()) << tensors.error().error.message();
    const auto media = values<std::int32_t>(*tensors, "vision.media");
    EXPECT_THAT(media, ElementsAre(1, 1, 64, 64)) << type;
  }
}

TEST_F(QwenVideo, WithoutSettingsItsBoundsAreThoseOfItsImages) {
  const Recipe bounded = [&] {
    return directory_.read(config("qwen2_vl"), R"({"min_pixels": 784, "max_pixels": 784})").value();
  }();
  const SampleShape shape{{Sample({{kVideo}, {false}}, {}).shape.parts[0], video_of(90, 30, 1)},
                          1.0F};
  const auto parts = bounded.parts(shape).value();
  EXPECT_EQ(parts[1].rows, 2U);
  EXPECT_EQ(parts[1].columns, 2U);
  EXPECT_EQ(parts[1].frames, 6U);  // two a second
  EXPECT_EQ(parts[1].timestamps_s.at(1), 0.5);
}

TEST_F(QwenVideo, AVideoThatIsTooShortGivesWhatItHas) {
  const FrameSampling of_number = {.num_frames = 16};
  EXPECT_THAT(frames_in_pairs(video_of(5, 30, 1), of_number).value(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(frames_in_pairs(video_of(1, 30, 1), of_number).value(), ElementsAre(0));
  EXPECT_THAT(frames_in_slices(video_of(3, 30, 1), of_number).value(), ElementsAre(0, 1, 2));
  EXPECT_THAT(frames_at_steps(video_of(3, 30, 1), 5).value(), ElementsAre(0, 0, 1, 1, 2));
}

TEST_F(QwenVideo, VideosThatCannotBeAreRefused) {
  const auto refused = [&](const PartShape& video, const std::string& settings) {
    const SampleShape shape{{Sample({{kVideo}, {false}}, {}).shape.parts[0], video}, 1.0F};
    const auto load = recipe("qwen2_5_vl", settings).load(shape);
    return load ? "" : load.error().message();
  };
  EXPECT_THAT(refused(video_of(0, 30, 1), "{}"), HasSubstr("video part without frames"));
  EXPECT_THAT(refused(video_of(9, 0, 1), "{}"), HasSubstr("without a frame rate"));
  EXPECT_THAT(refused(video_of(1 << 30, 1, 2'000'000'000), "{}"), HasSubstr("are too long"));
  EXPECT_EQ(refused(video_of(9, 30, 1), R"({"num_frames": 8})"), "");
}

TEST_F(QwenVideo, ADirectoryIsRefusedByFileKeyAndValue) {
  EXPECT_THAT(refusal("qwen2_vl", R"({"fps": 2, "num_frames": 4})"),
              HasSubstr("video_preprocessor_config.json: fps and num_frames are both given"));
  EXPECT_THAT(refusal("qwen2_vl", R"({"fps": 0})"), HasSubstr("fps is 0.000000; it must be more"));
  EXPECT_THAT(refusal("qwen2_vl", R"({"frame_rate": 2})"),
              HasSubstr("frame_rate is 2; this setting is not supported"));
  EXPECT_THAT(refusal("qwen3_vl", R"({"patch_size": 14})"),
              HasSubstr("patch_size is 14, while the encoder's patches have 16 pixels"));
  EXPECT_THAT(refusal("qwen2_vl", R"({"max_frames": 1})"), HasSubstr("max_frames is 1"));
  EXPECT_THAT(refusal("qwen3_vl", R"({"min_pixels": 1})"), HasSubstr("min_pixels is 1; this"));
  EXPECT_THAT(refusal("qwen3_vl", R"({"video_processor_type": "Qwen2VLVideoProcessor"})"),
              HasSubstr("video_preprocessor_config.json: video_processor_type is "
                        "\"Qwen2VLVideoProcessor\"; it must be one of Qwen3VLVideoProcessor"));
  EXPECT_THAT(refusal("qwen2_5_vl", R"({"video_processor_type": "Qwen3VLVideoProcessor"})"),
              HasSubstr("must be one of Qwen2VLVideoProcessor"));
  EXPECT_EQ(refusal("qwen2_5_vl", R"({"video_processor_type": "Qwen2VLVideoProcessor"})"), "");
  EXPECT_EQ(refusal("qwen3_vl", R"({"fps": 2, "do_sample_frames": true, "num_frames": null})"), "");
}

TEST_F(QwenVideo, TheTypeDecidesWhichProcessorItIs) {
  for (const char* type : {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}) {
    EXPECT_EQ(refusal(type, R"({"video_processor_type": "Qwen3VLVideoProcessor"})"), "") << type;
    EXPECT_THAT(refusal(type, R"({"video_processor_type": "Qwen2VLVideoProcessor"})"),
                HasSubstr("it must be one of Qwen3VLVideoProcessor"))
        << type;
    EXPECT_THAT(recipe(type).text_settings(), HasSubstr("max_frames")) << type;
    const bool linear = std::string(type).starts_with("qwen3_5");
    EXPECT_THAT(recipe(type).description(),
                HasSubstr(linear ? R"("linear_attention":true)" : R"("linear_attention":false)"));
  }
}

// transformers would build such a mixture with the numbers of another model.
TEST_F(QwenVideo, AMixtureWithoutCountsOfItsExpertsIsRefused) {
  for (const char* type : {"qwen3_vl_moe", "qwen3_5_moe"}) {
    const auto refused = [&](const std::string& experts) {
      return directory_.refusal(config(type, experts), processor(type));
    };
    EXPECT_THAT(refused(""), HasSubstr("config.json: text_config: num_experts is missing"));
    EXPECT_THAT(refused(R"("num_experts": 0)"), HasSubstr("num_experts is 0; it must be 1 to "));
    EXPECT_THAT(refused(R"("num_experts": 4)"), HasSubstr("num_experts_per_tok is missing"));
    EXPECT_THAT(refused(R"("num_local_experts": 4, "num_experts_per_tok": 5)"),
                HasSubstr("num_experts_per_tok is 5; it must be 1 to 4"));
    EXPECT_EQ(refused(R"("num_local_experts": 4, "num_experts_per_tok": 4)"), "");
  }
}

// A type that is in no table is refused with the nearest of those with its processors.
TEST_F(QwenVideo, AnotherTypeWithTheseProcessorsIsRefusedByName) {
  const auto refused = [&](const std::string& type, const std::string& videos) {
    directory_.write("video_preprocessor_config.json",
                     R"({"video_processor_type": ")" + videos + R"("})");
    return directory_.refusal(config(type),
                              R"({"image_processor_type": "Qwen2VLImageProcessorFast"})");
  };
  constexpr const char* kThird = "Qwen3VLVideoProcessor";
  constexpr const char* kSecond = "Qwen2VLVideoProcessor";
  EXPECT_THAT(refused("qwen3_6", kThird),
              HasSubstr("config.json: model_type is \"qwen3_6\", for which there is no recipe; "
                        "there is one for internvl, "));
  EXPECT_THAT(
      refused("qwen3_6", kThird),
      HasSubstr("whisper; with the same Qwen2VLImageProcessor and Qwen3VLVideoProcessor the "
                "nearest is qwen3_5, but a type that was not compared may take other "));
  EXPECT_THAT(refused("qwen3_omni_moe", kSecond), HasSubstr("the nearest is qwen2_5_vl, "));
  EXPECT_THAT(refused("qwen3_omni_moe", kThird), HasSubstr("the nearest is qwen3_vl_moe, "));
  EXPECT_THAT(refused("qwen3_vl_mo", kThird), HasSubstr("the nearest is qwen3_vl_moe, "));
  EXPECT_THAT(refused("other", "OtherVideoProcessor"), EndsWith("qwen3_5_moe, whisper"));
}

TEST_F(QwenVideo, MemoryIsBoundedAndStopsAreObeyed) {
  test::VideoSpec spec;
  spec.frames = 40;
  Sample sample({{kVideo}, {false}}, {test::make_video(spec)});
  const Recipe of_qwen = recipe("qwen2_vl");
  EXPECT_GT(of_qwen.working_set_bytes(sample.shape).value(),
            of_qwen.load(sample.shape).value().tensor_bytes + std::int64_t{96} * 64 * 3 * 3);
  std::stop_source stop;
  stop.request_stop();
  const auto stopped =
      sample.tensors(of_qwen, DecodeLimit(std::chrono::hours(1), stop.get_token()));
  EXPECT_EQ(stopped.error().error.code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace isocost
