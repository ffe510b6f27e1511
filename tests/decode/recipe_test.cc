#include "decode/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "decode/probe.h"
#include "decode/recipes/internal/native28_grid.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

using test::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct NamedBytes {
  std::string name;
  Bytes bytes;
};

/// Parts with their probed shapes.
struct Sample {
  explicit Sample(std::vector<NamedBytes> of) : parts(std::move(of)) {
    for (const NamedBytes& part : parts) {
      sources.emplace_back(part.bytes);
      const auto probed = probe(sources.back(), part.name, {});
      EXPECT_TRUE(probed.has_value()) << part.name << ": " << probed.error().to_string();
      shape.parts.push_back(probed.value_or(PartShape{}));
    }
  }
  std::vector<PartBytes> views() const {
    std::vector<PartBytes> out;
    for (std::size_t i = 0; i < parts.size(); ++i) out.push_back({&shape.parts[i], &sources[i]});
    return out;
  }

  std::vector<NamedBytes> parts;
  std::vector<MemoryByteSource> sources;
  SampleShape shape;
};

const SharedTensor* find(const std::vector<NamedTensor>& tensors, std::string_view name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor.tensor;
  }
  return nullptr;
}

template <typename T>
std::vector<T> values(const std::vector<NamedTensor>& tensors, std::string_view name) {
  const SharedTensor* tensor = find(tensors, name);
  if (tensor == nullptr) return {};
  const auto view = tensor->as<T>();
  return {view.begin(), view.end()};
}

/// The load as the tensors tell it, without the recipe.
Load load_of(const std::vector<NamedTensor>& tensors) {
  Load load;
  for (const auto patches : values<std::int32_t>(tensors, "vision.lengths")) {
    load[CostModule::kVision].add_sequence(patches);
  }
  for (const auto frames : values<std::int32_t>(tensors, "audio.lengths")) {
    load[CostModule::kAudio].add_sequence(frames / 2);
  }
  for (const auto tokens : values<std::int32_t>(tensors, "llm.lengths")) {
    load[CostModule::kLlm].add_sequence(tokens);
  }
  for (const auto label : values<std::int64_t>(tensors, "llm.labels")) {
    load.label_tokens += label != kIgnoredLabel ? 1 : 0;
  }
  for (const NamedTensor& tensor : tensors) load.tensor_bytes += tensor.tensor.size_bytes();
  return load;
}

/// Checks the conditions that hold for every sample's tensors.
void expect_consistent(const std::vector<NamedTensor>& tensors) {
  const auto grids = values<std::int32_t>(tensors, "vision.grids");
  const auto lengths = values<std::int32_t>(tensors, "vision.lengths");
  ASSERT_EQ(grids.size(), 2 * lengths.size());
  std::int64_t patches = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(grids[2 * i] % 2, 0);
    EXPECT_EQ(grids[2 * i + 1] % 2, 0);
    EXPECT_EQ(grids[2 * i] * grids[2 * i + 1], lengths[i]);
    patches += lengths[i];
  }
  if (const auto* rows = find(tensors, "vision.patches")) {
    EXPECT_THAT(rows->shape, ElementsAre(patches, 588));
  }
  const auto windows = values<std::int32_t>(tensors, "audio.lengths");
  const std::int64_t frames = std::accumulate(windows.begin(), windows.end(), std::int64_t{0});
  if (const auto* mel = find(tensors, "audio.mel")) {
    EXPECT_THAT(mel->shape, ElementsAre(frames, 128));
  }
  const auto ids = values<std::int64_t>(tensors, "llm.input_ids");
  const auto count = [&](std::int64_t id) { return std::count(ids.begin(), ids.end(), id); };
  EXPECT_EQ(count(kTokenVision) * 4, patches);
  EXPECT_EQ(count(kTokenAudio) * 4, frames);
  EXPECT_EQ(ids.front(), kTokenBos);
  EXPECT_EQ(ids.back(), kTokenEos);
}

void expect_load_is_that_of_tensors(const Sample& sample, const RecipeOptions& options = {}) {
  const auto recipe = Recipe::create(options);
  ASSERT_TRUE(recipe.has_value());
  BufferPool pool;
  const auto tensors = recipe->tensors(sample.views(), pool);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.to_string();
  expect_consistent(*tensors);
  const auto load = recipe->load(sample.shape);
  ASSERT_TRUE(load.has_value());
  EXPECT_EQ(*load, load_of(*tensors));
  EXPECT_EQ(load->tensor_bytes, load_of(*tensors).tensor_bytes);
  const auto working = recipe->working_set_bytes(sample.shape);
  ASSERT_TRUE(working.has_value());
  EXPECT_GE(*working, pool.bytes_in_use());
}

TEST(Recipe, LoadIsThatOfTheTensorsForEveryImageFormatAndOddSizes) {
  const std::vector<std::pair<MediaFormat, std::string>> formats = {{MediaFormat::kJpeg, "a.jpg"},
                                                                    {MediaFormat::kPng, "png"},
                                                                    {MediaFormat::kWebp, "webp"},
                                                                    {MediaFormat::kGif, "b.gif"},
                                                                    {MediaFormat::kBmp, "bmp"}};
  const std::vector<std::pair<int, int>> sizes = {{1, 1},   {1, 300},  {299, 2}, {41, 42},
                                                  {43, 41}, {97, 155}, {513, 67}};
  for (const auto& [format, name] : formats) {
    for (const auto& [width, height] : sizes) {
      SCOPED_TRACE(name + " " + std::to_string(width) + "x" + std::to_string(height));
      expect_load_is_that_of_tensors(Sample({{name, test::make_image(format, width, height)}}));
    }
  }
}

TEST(Recipe, LoadIsThatOfTheTensorsForEveryOrientation) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Sample sample({{"jpg", test::make_jpeg(150, 70, 3, orientation)}});
    EXPECT_EQ(sample.shape.parts[0].width, orientation > 4 ? 70 : 150);
    EXPECT_EQ(sample.shape.parts[0].orientation, orientation);
    expect_load_is_that_of_tensors(sample);
  }
}

TEST(Recipe, LoadIsThatOfTheTensorsWhereLimitsCut) {
  Native28Options options;
  options.max_image_patches = 40;
  options.max_frame_patches = 8;
  options.max_video_frames = 3;
  options.max_audio_seconds = 0.5;
  options.max_text_tokens = 5;
  const Sample sample({{"0.png", test::make_png(300, 200)},
                       {"0.txt", test::text_bytes("more than five")},
                       {"mp4", test::make_video({})},
                       {"wav", test::make_wav(test::sine(16'000, 1, 24'000, 440), 16'000, 1)}});
  expect_load_is_that_of_tensors(sample, options);
  const Load load = *Recipe::create(options)->load(sample.shape);
  EXPECT_EQ(load.label_tokens, 6);
  EXPECT_LE(load[CostModule::kVision].units, 40 + 3 * 8);
  EXPECT_EQ(load[CostModule::kAudio].units, 26);  // 50 frames, padded to 52
}

// A sample with every modality has exactly the tensors of the schema that the recipe computes, but
// for those that only models in directories have.
TEST(Recipe, TensorsAreThoseOfTheSchema) {
  const Sample sample({{"png", test::make_png(300, 200)},
                       {"txt", test::text_bytes("text")},
                       {"wav", test::make_wav(test::sine(16'000, 1, 24'000, 440), 16'000, 1)}});
  BufferPool pool;
  const auto tensors = Recipe::create({})->tensors(sample.views(), pool);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.to_string();
  std::size_t of_recipe = 0;
  for (const TensorEntry& entry : kTensorSchema) {
    const bool of_models = entry.role == TensorRole::kMedia || entry.role == TensorRole::kRope ||
                           entry.role == TensorRole::kTurnWeights;
    if (entry.source == TensorSource::kRecipe && !of_models) ++of_recipe;
  }
  const std::map<std::string_view, std::int64_t> widths = {{"vision.patches", 588},
                                                           {"audio.mel", 128}};
  EXPECT_EQ(tensors->size(), of_recipe);
  for (const NamedTensor& named : *tensors) {
    const TensorEntry* entry = find_tensor(named.name);
    ASSERT_NE(entry, nullptr) << named.name;
    EXPECT_EQ(entry->source, TensorSource::kRecipe) << named.name;
    EXPECT_EQ(named.tensor.dtype, entry->dtype) << named.name;
    const auto width = widths.contains(named.name) ? widths.at(named.name) : entry->row_width;
    EXPECT_EQ(named.tensor.shape, entry->shape(named.tensor.shape.front(), width)) << named.name;
  }
}

TEST(Recipe, PartsAreThoseOfTheTensors) {
  Native28Options options;
  options.video_fps = 10;
  options.max_video_frames = 3;
  const Sample sample({{"0.png", test::make_png(300, 200)},
                       {"0.txt", test::text_bytes("text")},
                       {"mp4", test::make_video({})},
                       {"wav", test::make_wav(test::sine(16'000, 1, 24'000, 440), 16'000, 1)}});
  BufferPool pool;
  const Recipe recipe = *Recipe::create(options);
  const auto parts = *recipe.parts(sample.shape);
  const auto tensors = recipe.tensors(sample.views(), pool);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().error.to_string();
  ASSERT_EQ(parts.size(), 4U);
  std::vector<std::int32_t> grids;
  std::int64_t mel_frames = 0;
  for (const SamplePart& part : parts) {
    const bool seen = part.modality == Modality::kImage || part.modality == Modality::kVideo;
    for (std::uint32_t i = 0; seen && i < part.frames; ++i) {
      grids.push_back(static_cast<std::int32_t>(part.rows));
      grids.push_back(static_cast<std::int32_t>(part.columns));
    }
    if (part.modality == Modality::kAudio) mel_frames += part.frames;
    EXPECT_EQ(part.timestamps_s.size(), part.modality == Modality::kVideo ? part.frames : 0);
  }
  EXPECT_EQ(grids, values<std::int32_t>(*tensors, "vision.grids"));
  EXPECT_EQ(mel_frames, find(*tensors, "audio.mel")->shape.front());
  EXPECT_EQ(parts[1], SamplePart{Modality::kText});
  // In the middle of three equal slices.
  const double seconds = 1e-6 * static_cast<double>(sample.shape.parts[2].duration_us);
  EXPECT_NEAR(parts[2].timestamps_s.front(), seconds / 6, 1e-6);
  EXPECT_NEAR(parts[2].timestamps_s.back(), 5 * seconds / 6, 1e-6);
}

TEST(Recipe, LoadIsThatOfTheTensorsForAudioAndVideo) {
  const auto sound = test::sine(22'050, 2, 70'001, 440);
  for (const auto& [format, name] :
       std::vector<std::pair<MediaFormat, std::string>>{{MediaFormat::kWav, "wav"},
                                                        {MediaFormat::kFlac, "flac"},
                                                        {MediaFormat::kOggVorbis, "ogg"},
                                                        {MediaFormat::kMp3, "mp3"}}) {
    SCOPED_TRACE(name);
    expect_load_is_that_of_tensors(Sample({{name, test::make_audio(format, sound, 22'050, 2)}}));
  }
  const auto opus =
      test::make_audio(MediaFormat::kOpus, test::sine(48'000, 1, 99'000, 440), 48'000, 1);
  expect_load_is_that_of_tensors(Sample({{"opus", opus}}));
  expect_load_is_that_of_tensors(Sample({{"voice.ogg", opus}}));  // Ogg holds either
  for (const auto& [format, name] : std::vector<std::pair<MediaFormat, std::string>>{
           {MediaFormat::kMp4, "mp4"}, {MediaFormat::kMatroska, "mkv"}}) {
    test::VideoSpec spec;
    spec.container = format;
    spec.frames = 35;
    expect_load_is_that_of_tensors(Sample({{name, test::make_video(spec)}}));
  }
}

TEST(Recipe, AMixedSampleIsLaidOutPartByPart) {
  const Sample sample({{"txt", test::text_bytes("Hi")},
                       {"0.png", test::make_png(28, 56)},
                       {"json", test::text_bytes(R"({"text": "é", "weight": 2})")},
                       {"wav", test::make_wav(test::sine(16'000, 1, 640, 440), 16'000, 1)}});
  BufferPool pool;
  const auto tensors = Recipe::create({})->tensors(sample.views(), pool);
  ASSERT_TRUE(tensors.has_value());
  const auto V = kTokenVision;
  const auto A = kTokenAudio;
  const auto X = kIgnoredLabel;
  EXPECT_THAT(values<std::int64_t>(*tensors, "llm.input_ids"),
              ElementsAre(kTokenBos, 'H', 'i', V, V, 0xC3, 0xA9, A, kTokenEos));
  EXPECT_THAT(values<std::int64_t>(*tensors, "llm.labels"),
              ElementsAre(X, 'H', 'i', X, X, 0xC3, 0xA9, X, kTokenEos));
  EXPECT_THAT(values<std::int64_t>(*tensors, "llm.position_ids"),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(values<std::int32_t>(*tensors, "llm.lengths"), ElementsAre(9));
  EXPECT_THAT(values<std::int32_t>(*tensors, "vision.grids"), ElementsAre(4, 2));
  EXPECT_THAT(values<std::int32_t>(*tensors, "vision.lengths"), ElementsAre(8));
  EXPECT_THAT(values<std::int32_t>(*tensors, "audio.lengths"), ElementsAre(4));
  EXPECT_EQ(tensors->size(), 9U);
  for (const NamedTensor& tensor : *tensors) EXPECT_TRUE(pool.owns(tensor.tensor.data));
}

TEST(Recipe, ATextSampleHasNoTensorsOfOtherModalities) {
  const Sample sample({{"txt", test::text_bytes("a")}});
  BufferPool pool;
  const auto tensors = Recipe::create({})->tensors(sample.views(), pool);
  ASSERT_TRUE(tensors.has_value());
  EXPECT_EQ(tensors->size(), 4U);
  expect_load_is_that_of_tensors(sample);
}

TEST(Recipe, ErrorsNameThePart) {
  Sample sample({{"0.png", test::make_png(30, 30)}, {"1.png", test::make_png(40, 40)}});
  sample.parts[1].bytes[200] ^= std::byte{0xFF};
  BufferPool pool;
  const auto tensors = Recipe::create({})->tensors(sample.views(), pool);
  ASSERT_FALSE(tensors.has_value());
  EXPECT_EQ(tensors.error().part, 1U);
  EXPECT_EQ(tensors.error().error.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

TEST(Recipe, PicturesKeepTheLimit) {
  const Sample sample({{"0.png", test::make_png(30, 30)}});
  BufferPool pool;
  const auto late =
      Recipe::create({})->tensors(sample.views(), pool, DecodeLimit(std::chrono::nanoseconds(1)));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().error.code(), ErrorCode::kResourceExhausted);
}

TEST(Recipe, TextThatIsNotUtf8IsCorruptWithItsOffset) {
  std::string text(5000, 'a');
  text += "\xC3\x28";  // beyond what the probe reads
  const Sample sample({{"txt", test::text_bytes(text)}});
  BufferPool pool;
  const auto tensors = Recipe::create({})->tensors(sample.views(), pool);
  ASSERT_FALSE(tensors.has_value());
  EXPECT_EQ(tensors.error().error.code(), ErrorCode::kCorrupt);
  EXPECT_THAT(tensors.error().error.message(), HasSubstr("byte 5000"));
}

TEST(Recipe, AnEmptyTextIsRefused) {
  const Sample sample({{"png", test::make_png(30, 30)}, {"txt", test::text_bytes("")}});
  const auto refused = Recipe::create({})->load(sample.shape);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("its text has zero bytes"));
}

TEST(Recipe, RefusesShapesThatCannotBe) {
  const Recipe recipe = *Recipe::create({});
  EXPECT_EQ(recipe.load({}).error().code(), ErrorCode::kInvalidArgument);
  PartShape image;
  image.modality = Modality::kImage;
  image.width = 10;
  EXPECT_EQ(recipe.load({{image}, 1}).error().code(), ErrorCode::kInvalidArgument);
  image.width = image.height = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(recipe.load({{image}, 1}).error().code(), ErrorCode::kInvalidArgument);
  PartShape text;
  text.text_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(recipe.load({{text}, 1})->label_tokens, 8193);
  text.encoded_bytes = text.text_bytes;
  EXPECT_EQ(recipe.working_set_bytes({{text}, 1}).error().code(), ErrorCode::kInvalidArgument);
  Native28Options wide;
  wide.max_text_tokens = 1 << 24;
  const SampleShape many{std::vector<PartShape>(17, text), 1};
  EXPECT_EQ(Recipe::create(wide)->load(many).error().code(), ErrorCode::kResourceExhausted);
}

TEST(Recipe, RefusesOptionsOutOfRangeByName) {
  const auto message = [](auto set) {
    Native28Options options;
    set(options);
    const auto recipe = Recipe::create(options);
    return recipe.has_value() ? std::string() : recipe.error().message();
  };
  EXPECT_THAT(message([](auto& o) { o.max_image_patches = 3; }),
              HasSubstr("max_image_patches is 3"));
  EXPECT_THAT(message([](auto& o) { o.max_frame_patches = -1; }), HasSubstr("max_frame_patches"));
  EXPECT_THAT(message([](auto& o) { o.video_fps = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("video_fps"));
  EXPECT_THAT(message([](auto& o) { o.max_video_frames = 0; }), HasSubstr("max_video_frames"));
  EXPECT_THAT(message([](auto& o) { o.max_audio_seconds = 0; }), HasSubstr("max_audio_seconds"));
  EXPECT_THAT(message([](auto& o) { o.max_text_tokens = 0; }), HasSubstr("must be 1 to"));
}

TEST(Recipe, EveryOptionChangesTheFingerprint) {
  const auto fingerprint = [](auto set) {
    Native28Options options;
    set(options);
    return Recipe::create(options)->fingerprint();
  };
  const std::vector<std::uint64_t> all = {fingerprint([](auto&) {}),
                                          fingerprint([](auto& o) { o.max_image_patches = 1024; }),
                                          fingerprint([](auto& o) { o.max_frame_patches = 4096; }),
                                          fingerprint([](auto& o) { o.video_fps = 2; }),
                                          fingerprint([](auto& o) { o.max_video_frames = 8; }),
                                          fingerprint([](auto& o) { o.max_audio_seconds = 30; }),
                                          fingerprint([](auto& o) { o.max_text_tokens = 100; })};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(all[i], all[k]);
  }
  EXPECT_EQ(all[0], fingerprint([](auto&) {}));
}

TEST(PatchGrid, RoundsEachSideToTheNearestMultipleOf28) {
  EXPECT_EQ(patch_grid(1, 1, 4096), (PatchGrid{2, 2}));
  EXPECT_EQ(patch_grid(41, 42, 4096), (PatchGrid{4, 2}));
  EXPECT_EQ(patch_grid(280, 28, 4096), (PatchGrid{2, 20}));
}

TEST(PatchGrid, KeepsToTheLimitAndAboutTheAspect) {
  for (const int limit : {4, 40, 1024, 4096}) {
    for (const auto& [width, height] :
         std::vector<std::pair<int, int>>{{5640, 3172}, {900, 900}, {1, 100'000}, {100'000, 50}}) {
      const PatchGrid grid = patch_grid(width, height, limit);
      EXPECT_LE(grid.patches(), limit);
      EXPECT_GE(grid.patches(), 4);
      EXPECT_EQ(grid.rows % 2 + grid.columns % 2, 0);
    }
  }
  const PatchGrid photo = patch_grid(5640, 3172, 4096);
  EXPECT_EQ(photo, (PatchGrid{46, 84}));  // 1.826 for 1.778
}

TEST(FrameTimes, AreTheMiddlesOfEqualSlices) {
  EXPECT_EQ(frame_count(0, 1, 32), 1);
  EXPECT_EQ(frame_count(2'999'999, 1, 32), 2);
  EXPECT_EQ(frame_count(3'000'000, 1, 32), 3);
  EXPECT_EQ(frame_count(std::numeric_limits<std::int64_t>::max(), 1000, 32), 32);
  EXPECT_THAT(frame_times_us(3'000'000, 3), ElementsAre(500'000, 1'500'000, 2'500'000));
}

}  // namespace
}  // namespace isocost
