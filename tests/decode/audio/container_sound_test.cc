// Sounds of containers against ffmpeg, and MP3 files against soundfile: make_sound_goldens.py made
// golden_sounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/probe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "tests/support/av_media.h"

namespace isocost {
namespace {

using test::Bytes;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

Bytes bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

fs::path folder() { return fs::path(ISOCOST_SOURCE_DIR) / "tests/decode/audio/golden_sounds"; }

Bytes golden(const std::string& name) { return bytes_of(folder() / name); }

std::vector<fs::path> sounds() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() != ".f32") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// The mean of the channels that ffmpeg has read.
std::vector<float> expected_mono(const fs::path& sound, std::size_t channels) {
  const Bytes bytes = bytes_of(sound.string() + ".f32");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  std::vector<float> mono;
  for (std::size_t i = 0; i + channels <= values.size(); i += channels) {
    float sum = 0;
    for (std::size_t c = 0; c < channels; ++c) sum += values[i + c];
    mono.push_back(sum * (1.0F / static_cast<float>(channels)));
  }
  return mono;
}

Result<std::vector<float>> decoded(const ByteSource& source, const PartShape& shape) {
  ISOCOST_ASSIGN(const auto decoder, open_audio(source, shape.format));
  EXPECT_EQ(decoder->sample_rate(), shape.sample_rate);
  EXPECT_EQ(decoder->channels(), shape.channels);
  std::vector<float> samples;
  for (;;) {
    ISOCOST_ASSIGN(const auto chunk, decoder->read());
    if (chunk.empty()) return samples;
    samples.insert(samples.end(), chunk.begin(), chunk.end());
  }
}

class SoundGolden : public testing::TestWithParam<fs::path> {};

TEST_P(SoundGolden, SamplesAreThoseOfTheOtherReader) {
  const Bytes bytes = bytes_of(GetParam());
  const MemoryByteSource source(bytes);
  const auto shape = probe(source, GetParam().filename().string(), {});
  ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
  EXPECT_EQ(shape->modality, Modality::kAudio);
  const auto expected = expected_mono(GetParam(), static_cast<std::size_t>(shape->channels));
  const auto samples = decoded(source, *shape);
  ASSERT_TRUE(samples.has_value()) << samples.error().to_string();
  ASSERT_EQ(samples->size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR((*samples)[i], expected[i], 2e-6) << i;
  }
  // A container states the length without what fills the last packet.
  EXPECT_NEAR(static_cast<double>(shape->frames), static_cast<double>(expected.size()),
              0.1 * shape->sample_rate);
}

TEST_P(SoundGolden, FillsAPlan) {
  const Bytes bytes = bytes_of(GetParam());
  const MemoryByteSource source(bytes);
  const auto shape = probe(source, "a.wav", {});  // known by its content
  ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
  const AudioPlan plan = plan_audio(*shape, 10);
  const auto frames =
      std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0});
  std::vector<float> mel(static_cast<std::size_t>(frames * plan.bins));
  const Status status = audio_log_mel(source, *shape, plan, mel);
  ASSERT_TRUE(status.has_value()) << status.error().to_string();
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.filename().string();
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Sounds, SoundGolden, testing::ValuesIn(sounds()), test_name);

TEST(ContainerSound, StatesTheLengthWithoutPadding) {
  for (const auto& [name, frames] :
       std::vector<std::pair<std::string, std::int64_t>>{{"aac.m4a", 3200},
                                                         {"alac.m4a", 4800},
                                                         {"pcm24.aiff", 800},
                                                         {"alac.caf", 4800},
                                                         {"flac.oga", 4800},
                                                         {"alac.mka", 4800},
                                                         {"speex.flv", 1600},
                                                         {"mulaw.caf", 800}}) {
    const Bytes bytes = golden(name);
    const auto shape = probe(MemoryByteSource(bytes), name, {});
    ASSERT_TRUE(shape.has_value()) << name << shape.error().to_string();
    EXPECT_EQ(shape->frames, frames) << name;
  }
}

// Files that state their size, or end with a page, are refused where they are cut; other streams
// are read to their last whole packet.
TEST(ContainerSound, RefusesACutOffFile) {
  for (const std::string name :
       {"aac.m4a", "pcm.aiff", "alac.caf", "wma2.wma", "pcm.avi", "flac.oga", "speex.spx"}) {
    Bytes bytes = golden(name);
    bytes.resize(bytes.size() * 3 / 4);
    const auto shape = probe(MemoryByteSource(bytes), name, {});
    ASSERT_FALSE(shape.has_value()) << name;
    EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt) << name;
    EXPECT_THAT(shape.error().message(), HasSubstr("cut off")) << name;
  }
}

TEST(ContainerSound, RefusesNoiseBehindEveryHeader) {
  for (const fs::path& path : sounds()) {
    Bytes bytes = bytes_of(path);
    for (std::size_t i = 300; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7919);
    const MemoryByteSource source(bytes);
    const auto shape = probe(source, path.filename().string(), {});
    if (!shape.has_value()) continue;
    (void)decoded(source, *shape);  // must end, whatever it gives
  }
}

// FFmpeg 5.1 decodes it wrongly without an error.
TEST(ContainerSound, RefusesMp3Of24KhzWithinAContainer) {
  const Bytes bytes = bytes_of(folder().parent_path() / "refused_sounds" / "mp3_24000.mka");
  const auto shape = probe(MemoryByteSource(bytes), "a.mka", {});
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(shape.error().message(), HasSubstr("take it out of its container"));
}

TEST(ContainerSound, SaysThatASoundIsEncrypted) {
  const Bytes bytes = bytes_of(folder().parent_path() / "refused_sounds" / "encrypted.m4a");
  const auto shape = probe(MemoryByteSource(bytes), "a.m4a", {});
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(shape.error().message(), HasSubstr("its sound is encrypted: decrypt it"));
}

// Packets of 120 ms leave up to as much in the last one, which the container says.
TEST(ContainerSound, OpusEndsWhereItsContainerSays) {
  for (const std::string name : {"opus.weba", "opus_long.weba"}) {
    const Bytes bytes = golden(name);
    const auto shape = probe(MemoryByteSource(bytes), name, {});
    ASSERT_TRUE(shape.has_value()) << name << shape.error().to_string();
    const auto expected = expected_mono(folder() / name, 1).size();
    EXPECT_NEAR(static_cast<double>(shape->frames), static_cast<double>(expected), 48) << name;
  }
}

TEST(ContainerSound, ReadsASoundBesidePicturesAsAVideo) {
  test::VideoSpec spec;
  spec.silence_s = 1;
  const Bytes bytes = test::make_video(spec);
  const auto shape = probe(MemoryByteSource(bytes), "a.m4a", {});
  ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
  EXPECT_EQ(shape->modality, Modality::kVideo);
  EXPECT_EQ(shape->format, MediaFormat::kMp4);
}

}  // namespace
}  // namespace isocost
