#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "base/byte_source.h"
#include "decode/audio/audio.h"
#include "tests/support/av_media.h"

namespace isocost::test {
namespace {

using ::testing::HasSubstr;

constexpr std::array kFormats = {MediaFormat::kWav, MediaFormat::kFlac, MediaFormat::kOggVorbis,
                                 MediaFormat::kOpus, MediaFormat::kMp3};

Result<PartShape> probe_bytes(std::span<const std::byte> bytes, MediaFormat format) {
  return probe_audio(MemoryByteSource(bytes), format);
}

std::string message_of(const Result<PartShape>& result) {
  return result.has_value() ? "" : result.error().to_string();
}

Bytes tone(MediaFormat format, std::int32_t rate, std::int32_t channels, std::int64_t frames) {
  return make_audio(format, sine(rate, channels, frames, 440), rate, channels);
}

TEST(AudioProbe, TellsRateChannelsAndLengthOfWavAndFlac) {
  for (const MediaFormat format : {MediaFormat::kWav, MediaFormat::kFlac}) {
    for (const std::int32_t rate : {8000, 11025, 22050, 44100, 48000}) {
      for (const std::int64_t frames : {1L, 777L, 12345L}) {
        const Bytes bytes = tone(format, rate, 2, frames);
        const auto shape = probe_bytes(bytes, format);
        ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
        EXPECT_EQ(shape->modality, Modality::kAudio);
        EXPECT_EQ(shape->format, format);
        EXPECT_EQ(shape->sample_rate, rate);
        EXPECT_EQ(shape->channels, 2);
        EXPECT_EQ(shape->frames, frames);
        EXPECT_EQ(shape->encoded_bytes, static_cast<std::int64_t>(bytes.size()));
      }
    }
  }
}

TEST(AudioProbe, TellsEveryWavEncoding) {
  for (int e = 0; e < 8; ++e) {
    const auto encoding = static_cast<WavEncoding>(e);
    for (const std::int32_t channels : {1, 2, 6}) {
      const auto shape =
          probe_bytes(make_wav(sine(16'000, channels, 1234, 440), 16'000, channels, encoding),
                      MediaFormat::kWav);
      ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
      EXPECT_EQ(shape->channels, channels);
      EXPECT_EQ(shape->frames, 1234);
    }
  }
}

TEST(AudioProbe, TellsVorbisLengthExactly) {
  for (const std::int32_t rate : {8000, 11025, 22050, 44100, 48000}) {
    for (const std::int64_t frames : {500L, 20'001L, 100'003L}) {
      const auto shape =
          probe_bytes(tone(MediaFormat::kOggVorbis, rate, 1, frames), MediaFormat::kOggVorbis);
      ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
      EXPECT_EQ(shape->sample_rate, rate);
      EXPECT_EQ(shape->frames, frames) << rate;
    }
  }
}

TEST(AudioProbe, TellsOpusLengthAt48kHz) {
  for (const std::int32_t rate : {8000, 16'000, 48'000}) {
    for (const std::int64_t frames : {4000L, 100'003L}) {
      const auto shape = probe_bytes(tone(MediaFormat::kOpus, rate, 2, frames), MediaFormat::kOpus);
      ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
      EXPECT_EQ(shape->sample_rate, 48'000);
      EXPECT_NEAR(static_cast<double>(shape->frames), static_cast<double>(frames) * 48'000 / rate,
                  48);
    }
  }
}

TEST(AudioProbe, NamesTheCodecInAnOggFile) {
  const auto shape =
      probe_bytes(tone(MediaFormat::kOpus, 48'000, 1, 48'000), MediaFormat::kOggVorbis);
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ(shape->format, MediaFormat::kOpus);
}

TEST(AudioProbe, TellsMp3LengthFromItsInfoFrameAndByWalking) {
  for (const std::int32_t rate : {16'000, 44'100, 48'000}) {
    const std::int64_t frames = rate * 2 + 77;
    Bytes bytes = tone(MediaFormat::kMp3, rate, 2, frames);
    const auto shape = probe_bytes(bytes, MediaFormat::kMp3);
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    EXPECT_EQ(shape->sample_rate, rate);
    EXPECT_EQ(shape->channels, 2);
    EXPECT_NEAR(static_cast<double>(shape->frames), static_cast<double>(frames), 0.1 * rate);
    // Without the tag's name the same file must be walked.
    for (std::size_t i = 0; i + 4 < 600; ++i) {
      if (std::memcmp(&bytes[i], "Info", 4) == 0 || std::memcmp(&bytes[i], "Xing", 4) == 0) {
        std::memset(&bytes[i], 0, 4);
      }
    }
    const auto walked = probe_bytes(bytes, MediaFormat::kMp3);
    ASSERT_TRUE(walked.has_value()) << walked.error().to_string();
    EXPECT_NEAR(static_cast<double>(walked->frames), static_cast<double>(frames), 0.2 * rate);
  }
}

TEST(AudioProbe, SkipsAnId3TagBeforeMp3) {
  const Bytes plain = tone(MediaFormat::kMp3, 44'100, 1, 44'100);
  Bytes tagged(10 + 300);
  std::memcpy(tagged.data(), "ID3\x03\x00\x00\x00\x00\x02\x2C", 10);
  tagged.insert(tagged.end(), plain.begin(), plain.end());
  const auto a = probe_bytes(plain, MediaFormat::kMp3);
  const auto b = probe_bytes(tagged, MediaFormat::kMp3);
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->frames, b->frames);
}

TEST(AudioProbe, ReadsFewBytesOfALongFile) {
  for (const MediaFormat format : kFormats) {
    const Bytes bytes = tone(format, 16'000, 1, 16'000 * 60);
    const MemoryByteSource memory(bytes);
    const CountingByteSource source(memory);
    ASSERT_TRUE(probe_audio(source, format).has_value());
    const bool is_ogg = format == MediaFormat::kOggVorbis || format == MediaFormat::kOpus;
    const std::int64_t most = is_ogg ? 12 << 10 : 8 << 10;  // the headers of all pages
    EXPECT_LE(source.bytes_read(), most) << static_cast<int>(format);
  }
}

TEST(AudioProbe, MeasuresAFlacStreamOfUnknownLength) {
  Bytes bytes = tone(MediaFormat::kFlac, 16'000, 1, 23'456);
  bytes[21] &= std::byte{0xF0};
  std::memset(&bytes[22], 0, 4);
  const auto shape = probe_bytes(bytes, MediaFormat::kFlac);
  ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
  EXPECT_EQ(shape->frames, 23'456);
}

TEST(AudioProbe, RefusesAudioWithoutSamples) {
  Bytes no_frames = tone(MediaFormat::kFlac, 16'000, 1, 23'456);
  no_frames[21] &= std::byte{0xF0};
  std::memset(&no_frames[22], 0, 4);
  no_frames.resize(42);
  no_frames[4] |= std::byte{0x80};  // no other metadata follows
  const Bytes wav = tone(MediaFormat::kWav, 16'000, 1, 0);
  for (const auto& shape :
       {probe_bytes(wav, MediaFormat::kWav), probe_bytes(no_frames, MediaFormat::kFlac)}) {
    ASSERT_FALSE(shape.has_value());
    EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(shape.error().message(), HasSubstr("has no samples"));
  }
}

TEST(AudioProbe, RefusesEmptyAndForeignBytes) {
  const Bytes junk(4096, std::byte{0x5A});
  for (const MediaFormat format : kFormats) {
    EXPECT_EQ(probe_bytes({}, format).error().code(), ErrorCode::kCorrupt);
    EXPECT_EQ(probe_bytes(junk, format).error().code(), ErrorCode::kCorrupt);
  }
}

TEST(AudioProbe, RefusesACutOffWavAndOgg) {
  // A size that is a little too large is a writer's error.
  for (const auto& [format, least] : {std::pair(MediaFormat::kWav, std::size_t{1025}),
                                      std::pair(MediaFormat::kOggVorbis, std::size_t{1})}) {
    const Bytes bytes = tone(format, 16'000, 1, 50'000);
    for (std::size_t cut = 0; cut + least <= bytes.size(); cut += 1 + bytes.size() / 97) {
      const auto shape = probe_bytes(std::span(bytes).first(cut), format);
      ASSERT_FALSE(shape.has_value()) << cut << " of " << bytes.size();
      EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt) << message_of(shape);
    }
    EXPECT_THAT(message_of(probe_bytes(std::span(bytes).first(bytes.size() - least), format)),
                HasSubstr("cut off"));
  }
}

TEST(AudioProbe, ReadsAWavOfUnknownOrSlightlyLargeSizeToItsEnd) {
  constexpr std::uint32_t kSamples = 1000;
  for (const std::uint32_t size : {0U, 2 * kSamples, 2 * kSamples + 1, 2 * kSamples + 44,
                                   0x7FFFF000U, 0x7FFFFFFFU, 0xFFFFFFDBU, 0xFFFFFFFFU}) {
    Bytes bytes = tone(MediaFormat::kWav, 16'000, 1, kSamples);
    for (const std::size_t at : {std::size_t{4}, bytes.size() - 2 * kSamples - 4}) {
      for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(size >> (8 * i));
    }
    const auto shape = probe_bytes(bytes, MediaFormat::kWav);
    ASSERT_TRUE(shape.has_value()) << size << ' ' << message_of(shape);
    EXPECT_EQ(shape->frames, kSamples) << size;
  }
}

TEST(AudioProbe, ChunksAfterAnEmptyRecordingAreNoSamples) {
  Bytes bytes = tone(MediaFormat::kWav, 16'000, 1, 0);
  for (const char c : std::string_view("LIST\4\0\0\0INFO", 12)) {
    bytes.push_back(static_cast<std::byte>(c));
  }
  EXPECT_THAT(message_of(probe_bytes(bytes, MediaFormat::kWav)), HasSubstr("has no samples"));
}

TEST(AudioProbe, ALargeRf64ThatIsCutOffIsRefused) {
  const Bytes wav = tone(MediaFormat::kWav, 16'000, 1, 1000);
  constexpr std::uint64_t kStated = 5'000'000'000;
  Bytes bytes;
  for (const char c : std::string_view("RF64\xFF\xFF\xFF\xFFWAVEds64\x1C\0\0\0", 20)) {
    bytes.push_back(static_cast<std::byte>(c));
  }
  bytes.resize(28);
  for (std::size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(kStated >> (8 * i)));
  bytes.resize(48);
  bytes.insert(bytes.end(), wav.begin() + 12, wav.end());
  EXPECT_THAT(message_of(probe_bytes(bytes, MediaFormat::kWav)), HasSubstr("cut off"));
}

TEST(AudioProbe, RefusesImpossibleHeaders) {
  Bytes bytes = tone(MediaFormat::kWav, 16'000, 1, 100);
  Bytes no_rate = bytes;
  std::memset(&no_rate[24], 0, 4);
  EXPECT_THAT(message_of(probe_bytes(no_rate, MediaFormat::kWav)), HasSubstr("0 Hz"));
  Bytes wide = bytes;
  wide[22] = std::byte{0xFF};
  EXPECT_EQ(probe_bytes(wide, MediaFormat::kWav).error().code(), ErrorCode::kCorrupt);
  Bytes adpcm = bytes;
  adpcm[20] = std::byte{2};
  EXPECT_EQ(probe_bytes(adpcm, MediaFormat::kWav).error().code(), ErrorCode::kUnsupported);
}

TEST(AudioProbe, PassesOnTheSourcesError) {
  for (const MediaFormat format : kFormats) {
    const Bytes bytes = tone(format, 16'000, 1, 16'000);
    const MemoryByteSource memory(bytes);
    EXPECT_EQ(probe_audio(FailingByteSource(memory, 0), format).error().code(), ErrorCode::kIo);
  }
}

}  // namespace
}  // namespace isocost::test
