// Streams that stand one after another in a file: `cat a.mp3 b.mp3`, and chained Ogg.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/internal/mp3_frame.h"
#include "decode/bytes/media_bytes.h"
#include "decode/probe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "tests/support/av_media.h"

namespace isocost::test {
namespace {

using ::testing::HasSubstr;

Bytes tone(MediaFormat format, std::int32_t rate, double seconds, double hz) {
  const auto frames = static_cast<std::int64_t>(seconds * rate);
  return make_audio(format, sine(rate, 1, frames, hz), rate, 1);
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes text_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes text_bytes(const std::string& text, std::size_t size) {
  Bytes bytes = text_bytes(text);
  bytes.resize(size);
  return bytes;
}

std::uint32_t ogg_checksum(std::span<const std::byte> page) {
  std::uint32_t crc = 0;
  for (const std::byte byte : page) {
    crc ^= std::to_integer<std::uint32_t>(byte) << 24;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc >> 31) != 0 ? 0x04C11DB7U : 0U);
  }
  return crc;
}

void put(std::span<std::byte> at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

// Gives a stream another serial number, as `ffmpeg -fflags +bitexact` gives all of its files one.
Bytes with_serial(Bytes bytes, std::uint32_t serial) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto segments = std::to_integer<std::size_t>(bytes[at + 26]);
    std::size_t size = 27 + segments;
    for (std::size_t i = 0; i < segments; ++i) {
      size += std::to_integer<std::size_t>(bytes[at + 27 + i]);
    }
    const auto page = std::span(bytes).subspan(at, size);
    put(page.subspan(14), serial);
    put(page.subspan(22), 0);
    put(page.subspan(22), ogg_checksum(page));
    at += size;
  }
  return bytes;
}

Bytes golden_sound(const std::string& name) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/tests/decode/audio/golden_sounds/" + name,
                     std::ios::binary);
  return text_bytes({std::istreambuf_iterator<char>(file), {}});
}

Result<std::vector<float>> decoded(const Bytes& bytes, const PartShape& shape) {
  const MemoryByteSource source(bytes);
  const bool is_mp3 = shape.format == MediaFormat::kMp3;
  ISOCOST_ASSIGN(const auto decoder, is_mp3 ? open_audio(source, shape.format)
                                            : open_checked_ogg(source, shape.format, shape.frames));
  std::vector<float> samples;
  for (;;) {
    ISOCOST_ASSIGN(const auto chunk, decoder->read());
    if (chunk.empty()) return samples;
    samples.insert(samples.end(), chunk.begin(), chunk.end());
  }
}

// A file's samples are those of its parts, one after another.
void expect_samples_of(const std::vector<Bytes>& parts, const Bytes& whole, MediaFormat format) {
  std::int64_t frames = 0;
  std::vector<float> expected;
  for (const Bytes& part : parts) {
    const auto shape = probe_audio(MemoryByteSource(part), format);
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    frames += shape->frames;
    const auto samples = decoded(part, *shape);
    ASSERT_TRUE(samples.has_value()) << samples.error().to_string();
    expected.insert(expected.end(), samples->begin(), samples->end());
  }
  const auto shape = probe_audio(MemoryByteSource(whole), format);
  ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
  EXPECT_EQ(shape->frames, frames);
  const auto samples = decoded(whole, *shape);
  ASSERT_TRUE(samples.has_value()) << samples.error().to_string();
  EXPECT_EQ(*samples, expected);
}

TEST(ChainedSound, OggStreamsAreReadOneAfterAnother) {
  for (const MediaFormat format : {MediaFormat::kOggVorbis, MediaFormat::kOpus}) {
    const std::vector<Bytes> parts = {tone(format, 48'000, 0.5, 300), tone(format, 48'000, 1, 900),
                                      tone(format, 48'000, 0.2, 500)};
    expect_samples_of(parts, joined(parts), format);
  }
}

TEST(ChainedSound, APlanMayEndWithinAnyOggStream) {
  for (const MediaFormat format : {MediaFormat::kOggVorbis, MediaFormat::kOpus}) {
    const Bytes whole = joined({tone(format, 48'000, 4, 300), tone(format, 48'000, 4, 900)});
    const MemoryByteSource source(whole);
    const PartShape shape = probe_audio(source, format).value();
    for (const double seconds : {0.5, 3.9, 4.1, 6.0, 8.0}) {
      const AudioPlan plan = plan_audio(shape, seconds);
      const auto frames =
          std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0});
      std::vector<float> mel(static_cast<std::size_t>(frames * plan.bins));
      const Status status = audio_log_mel(source, shape, plan, mel);
      EXPECT_TRUE(status.has_value()) << seconds << ' ' << status.error().to_string();
    }
  }
}

TEST(ChainedSound, OggStreamsOfDifferentRatesAreNamed) {
  const Bytes whole = joined({tone(MediaFormat::kOggVorbis, 48'000, 0.5, 300),
                              tone(MediaFormat::kOggVorbis, 16'000, 0.5, 300)});
  const auto shape = probe_audio(MemoryByteSource(whole), MediaFormat::kOggVorbis);
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(shape.error().message(), HasSubstr("chained Ogg streams"));
}

TEST(ChainedSound, OggStreamsOfOneSerialNumberAreAllRead) {
  constexpr std::uint32_t kSerial = 7;
  for (const MediaFormat format : {MediaFormat::kOggVorbis, MediaFormat::kOpus}) {
    const Bytes a = with_serial(tone(format, 48'000, 0.5, 300), kSerial);
    const Bytes b = with_serial(tone(format, 48'000, 1, 900), kSerial);
    const Bytes other = with_serial(a, kSerial + 1);
    for (const std::vector<Bytes>& parts : std::vector<std::vector<Bytes>>{
             {a, b}, {b, a}, {b, b}, {b, a, b}, {b, other, b}, {a, a, a, a}}) {
      expect_samples_of(parts, joined(parts), format);
    }
  }
}

TEST(ChainedSound, OggStreamsOfOtherCodecsAreNamed) {
  for (const std::string name : {"flac.oga", "flac.ogg", "speex.spx"}) {
    const Bytes part = golden_sound(name);
    ASSERT_TRUE(probe(MemoryByteSource(part), name, {}).has_value()) << name;
    for (const Bytes& whole : {joined({part, part}), joined({part, with_serial(part, 9)})}) {
      const auto shape = probe(MemoryByteSource(whole), name, {});
      ASSERT_FALSE(shape.has_value()) << name;
      EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported) << shape.error().to_string();
      EXPECT_THAT(shape.error().message(), HasSubstr("chained Ogg streams")) << name;
    }
  }
}

TEST(ChainedSound, Mp3StreamsAreReadOneAfterAnother) {
  const std::vector<Bytes> parts = {tone(MediaFormat::kMp3, 16'000, 0.7, 300),
                                    tone(MediaFormat::kMp3, 16'000, 1.3, 900),
                                    tone(MediaFormat::kMp3, 16'000, 0.4, 500)};
  expect_samples_of(parts, joined(parts), MediaFormat::kMp3);
}

TEST(ChainedSound, TagsMayStandBetweenMp3Streams) {
  const std::vector<Bytes> parts = {tone(MediaFormat::kMp3, 16'000, 0.7, 300),
                                    tone(MediaFormat::kMp3, 16'000, 1.3, 900)};
  const Bytes id3v1 = text_bytes("TAG", 128);
  const Bytes id3v2 = text_bytes("ID3\x04", 10 + 0);
  expect_samples_of(parts, joined({id3v2, parts[0], id3v1, id3v2, parts[1], id3v1}),
                    MediaFormat::kMp3);
}

TEST(ChainedSound, PaddingAndUnknownBytesMayStandBetweenMp3Streams) {
  const std::vector<Bytes> parts = {tone(MediaFormat::kMp3, 16'000, 0.7, 300),
                                    tone(MediaFormat::kMp3, 16'000, 1.3, 900)};
  const Bytes id3v1 = text_bytes("TAG", 128);
  const Bytes lyrics1 = text_bytes("LYRICSBEGIN words of a song LYRICSEND");
  const Bytes lyrics2 = text_bytes("LYRICSBEGININD0000210000028LYRICS200");
  const Bytes zeros(100'000);
  const Bytes unknown(100'000, std::byte{0x5A});
  for (const Bytes& between : {zeros, lyrics1, joined({lyrics2, id3v1}), unknown,
                               joined({id3v1, zeros, unknown, zeros})}) {
    expect_samples_of(parts, joined({parts[0], between, parts[1]}), MediaFormat::kMp3);
    expect_samples_of(parts, joined({parts[0], between, parts[1], between}), MediaFormat::kMp3);
  }
}

TEST(ChainedSound, Mp3StreamsOfDifferentRatesAreNamed) {
  const Bytes whole = joined(
      {tone(MediaFormat::kMp3, 16'000, 0.5, 300), tone(MediaFormat::kMp3, 22'050, 0.5, 300)});
  const auto shape = probe_audio(MemoryByteSource(whole), MediaFormat::kMp3);
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(shape.error().message(), HasSubstr("another sample rate"));
}

// Returns an MP3 without the frame that tells its length.
Bytes without_tag(const Bytes& mp3) {
  const auto bytes = std::span(mp3);
  const ByteView view(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const std::size_t at = has_tag(view, 0, "ID3") ? 10 + std::to_integer<std::size_t>(mp3[9]) : 0;
  const auto rest = bytes.subspan(at + parse_mp3_frame(view, at).value().bytes);
  return {rest.begin(), rest.end()};
}

TEST(ChainedSound, StreamsWithoutTagsAreJoinedOrNamed) {
  const Bytes mp2 = golden_sound("stereo_48000.mp2");
  const Bytes mp3 = without_tag(golden_sound("mono_48000.mp3"));
  expect_samples_of({mp2, mp2}, joined({mp2, mp2}), MediaFormat::kMp3);
  expect_samples_of({mp2, mp3}, joined({mp2, mp3}), MediaFormat::kMp3);
  expect_samples_of({mp2, mp3, mp2}, joined({mp2, mp3, mp2}), MediaFormat::kMp3);
  const Bytes other_layer = without_tag(golden_sound("mono_24000.mp3"));
  const Bytes other_rate = without_tag(golden_sound("mono_44100.mp3"));
  const Bytes tagged = golden_sound("mono_44100.mp3");
  const Bytes slow = golden_sound("stereo_24000.mp2");
  for (const auto& [first, second] : {std::pair(mp2, slow),
                                      {slow, mp2},
                                      {slow, other_layer},
                                      {mp3, other_rate},
                                      {other_rate, mp3},
                                      {tagged, mp3},
                                      {tagged, mp2}}) {
    for (const std::size_t times : {std::size_t{1}, (std::size_t{1} << 21) / second.size()}) {
      Bytes whole = first;
      for (std::size_t i = 0; i < times; ++i) {
        whole.insert(whole.end(), second.begin(), second.end());
      }
      const auto shape = probe_audio(MemoryByteSource(whole), MediaFormat::kMp3);
      ASSERT_FALSE(shape.has_value()) << shape->frames;
      EXPECT_THAT(shape.error().message(), HasSubstr("another sample rate or layer"));
    }
  }
}

}  // namespace
}  // namespace isocost::test
