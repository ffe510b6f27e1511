// Properties of sound files that other programs write: tags and bytes around them, placeholders in
// headers, and lengths that headers state wrongly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/probe.h"
#include "decode/shape/sample_shape.h"
#include "tests/support/av_media.h"

namespace isocost::test {
namespace {

using ::testing::HasSubstr;

Bytes operator+(Bytes left, std::span<const std::byte> right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Bytes text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters));
  return {bytes.begin(), bytes.end()};
}

Bytes tone(MediaFormat format, std::int32_t rate, std::int32_t channels, std::int64_t frames) {
  return make_audio(format, sine(rate, channels, frames, 440), rate, channels);
}

Bytes id3v1() { return text("TAG" + std::string(125, 'x')); }

struct Sound {
  PartShape shape;
  std::vector<float> samples;  ///< Mono, at the decoder's rate.
};

/// Reads a part as the loader does, and its samples before they are resampled.
Result<Sound> read(std::span<const std::byte> bytes, const std::string& name) {
  const MemoryByteSource source(bytes);
  Sound sound;
  ISOCOST_ASSIGN(sound.shape, probe(source, name, {}));
  const bool is_ogg = sound.shape.format == MediaFormat::kOggVorbis;
  ISOCOST_ASSIGN(const auto decoder,
                 is_ogg ? open_checked_ogg(source, sound.shape.format, sound.shape.frames)
                        : open_audio(source, sound.shape.format));
  for (;;) {
    ISOCOST_ASSIGN(const auto chunk, decoder->read());
    if (chunk.empty()) break;
    sound.samples.insert(sound.samples.end(), chunk.begin(), chunk.end());
  }
  const AudioPlan plan = plan_audio(sound.shape, 10);
  std::int64_t rows = 0;
  for (const std::int32_t frames : plan.window_frames) rows += frames;
  std::vector<float> mel(static_cast<std::size_t>(rows * plan.bins));
  ISOCOST_TRY(audio_log_mel(source, sound.shape, plan, mel));
  return sound;
}

/// Expects that a file has the samples of another one, which is read without its property.
void expect_samples_of(std::span<const std::byte> plain, std::span<const std::byte> bytes,
                       const std::string& name) {
  const auto expected = read(plain, name);
  ASSERT_TRUE(expected.has_value()) << expected.error().to_string();
  const auto found = read(bytes, name);
  ASSERT_TRUE(found.has_value()) << name << ' ' << found.error().to_string();
  EXPECT_EQ(found->shape.frames, expected->shape.frames);
  EXPECT_EQ(found->shape.sample_rate, expected->shape.sample_rate);
  EXPECT_EQ(found->shape.channels, expected->shape.channels);
  EXPECT_EQ(found->samples, expected->samples);
}

std::string error_of(std::span<const std::byte> bytes, const std::string& name) {
  const auto sound = read(bytes, name);
  return sound.has_value() ? "" : sound.error().to_string();
}

TEST(SoundProperties, FlacMayBeFollowedByOtherBytes) {
  for (const std::int32_t rate : {16'000, 44'100}) {
    const Bytes flac = tone(MediaFormat::kFlac, rate, 2, 9000);
    expect_samples_of(flac, flac + id3v1(), "a.flac");
    expect_samples_of(flac, flac + text(std::string(3000, '\0')), "a.flac");
    expect_samples_of(flac, flac + text("words"), "a.flac");
  }
}

// libsndfile would leave out the second.
TEST(SoundProperties, FlacStreamsOneAfterAnotherAreNamed) {
  for (const std::int32_t rate : {16'000, 44'100}) {
    const Bytes flac = tone(MediaFormat::kFlac, rate, 1, 9000);
    const std::string at = std::to_string(flac.size());
    EXPECT_THAT(error_of(flac + flac, "a.flac"),
                HasSubstr("another FLAC stream begins at byte " + at));
    EXPECT_THAT(error_of(flac + text(std::string(100'000, 'x')) + flac, "a.flac"),
                HasSubstr("another FLAC stream begins"));
  }
}

}  // namespace
}  // namespace isocost::test
