// Properties of sound files that other programs write: tags and bytes around them, placeholders in
// headers, and lengths that headers state wrongly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/probe.h"
#include "decode/shape/media_formats.h"
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
  const bool is_ogg =
      sound.shape.format == MediaFormat::kOggVorbis || sound.shape.format == MediaFormat::kOpus;
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

Bytes number(std::uint64_t value, std::size_t size, bool is_big = false) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(value >> (8 * (is_big ? size - 1 - i : i)));
  }
  return bytes;
}

Bytes chunk(std::string_view name, const Bytes& body, bool is_big = false) {
  const Bytes padding(body.size() % 2);
  return text(name) + number(body.size(), 4, is_big) + body + padding;
}

struct WavSpec {
  std::uint64_t tag = 1;
  std::uint64_t channels = 1;
  std::uint64_t rate = 16'000;
  std::uint64_t block = 2;
  std::uint64_t bits = 16;
  std::uint64_t block_frames = 0;
  bool is_big = false;
};

Bytes wav_format(const WavSpec& spec) {
  const auto put = [&](std::uint64_t value, std::size_t size) {
    return number(value, size, spec.is_big);
  };
  Bytes extension = spec.tag == 2 ? put(32, 2) : put(2, 2);
  extension = std::move(extension) + put(spec.block_frames, 2);
  if (spec.tag == 2) {  // the seven predictors of MS ADPCM
    extension = std::move(extension) + put(7, 2);
    for (const std::uint64_t value :
         {256, 0, 512, 0xFF00, 0, 0, 192, 64, 240, 0, 460, 0xFF30, 392, 0xFF18}) {
      extension = std::move(extension) + put(value, 2);
    }
  }
  return chunk("fmt ",
               put(spec.tag, 2) + put(spec.channels, 2) + put(spec.rate, 4) +
                   put(spec.rate * spec.block, 4) + put(spec.block, 2) + put(spec.bits, 2) +
                   (spec.tag == 1 ? Bytes() : extension),
               spec.is_big);
}

Bytes wav(const WavSpec& spec, const Bytes& data, const Bytes& behind = {}) {
  const Bytes body = text("WAVE") + wav_format(spec) + chunk("data", data, spec.is_big) + behind;
  return text(spec.is_big ? "RIFX" : "RIFF") + number(body.size(), 4, spec.is_big) + body;
}

/// Samples of 16 bits, in bytes each.
Bytes pcm(std::size_t samples, std::size_t bytes, bool is_big = false) {
  Bytes data;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto value = static_cast<std::uint64_t>((i * 7919) % 60'001) - 30'000;
    data = std::move(data) + number(value << (8 * (bytes - 2)), bytes, is_big);
  }
  return data;
}

TEST(SoundProperties, WavMayHaveItsNumbersInTheOtherOrder) {
  const WavSpec little;
  WavSpec big = little;
  big.is_big = true;
  const Bytes plain = wav(little, pcm(3000, 2));
  const Bytes rifx = wav(big, pcm(3000, 2, true));
  expect_samples_of(plain, rifx, "a.wav");
  Bytes unknown = rifx;  // as a pipe writes it
  std::memset(unknown.data() + 40, 0xFF, 4);
  expect_samples_of(plain, unknown, "a.wav");
}

TEST(SoundProperties, WavOfAnOddNumberOfBitsFillsBytes) {
  const Bytes plain = wav({}, pcm(3000, 2));
  for (const std::uint64_t bits : {9, 12, 15}) {
    expect_samples_of(plain, wav({.bits = bits}, pcm(3000, 2)), "a.wav");
  }
  for (const std::uint64_t bits : {17, 20, 24}) {
    expect_samples_of(plain, wav({.block = 3, .bits = bits}, pcm(3000, 3)), "a.wav");
  }
  EXPECT_THAT(error_of(wav({.block = 4, .bits = 20}, pcm(3000, 4)), "a.wav"),
              HasSubstr("block size does not fit"));
}

TEST(SoundProperties, WavMayStandBehindAnId3Tag) {
  const Bytes plain = wav({}, pcm(3000, 2));
  const Bytes tag = text(std::string_view("ID3\3\0\0\0\0\0\x0A", 10)) + Bytes(10);
  expect_samples_of(plain, tag + plain, "a.wav");
  Bytes unknown = tag + plain;
  std::memset(unknown.data() + tag.size() + 40, 0xFF, 4);
  expect_samples_of(plain, unknown, "a.wav");
  EXPECT_THAT(error_of(tag + tone(MediaFormat::kOggVorbis, 16'000, 1, 3000), "a.ogg"),
              HasSubstr("is Ogg Vorbis behind an ID3 tag"));
}

TEST(SoundProperties, WavSizesNear2GiBAreUnknown) {
  const Bytes plain = wav({}, pcm(3000, 2));
  for (const std::uint64_t size : {0x7FFF'F000U, 0x7FFF'FFFFU, 0x8000'0000U, 0x8000'0024U}) {
    Bytes unknown = plain;
    std::ranges::copy(number(size, 4), unknown.begin() + 40);
    expect_samples_of(plain, unknown, "a.wav");
  }
}

TEST(SoundProperties, Bw64IsReadAsRf64) {
  const Bytes data = pcm(3000, 2);
  const Bytes sizes = chunk("ds64", number(data.size() + 72, 8) + number(data.size(), 8) +
                                        number(data.size() / 2, 8) + number(0, 4));
  for (const std::string name : {"RF64", "BW64"}) {
    const Bytes wide = text(name) + number(0xFFFF'FFFF, 4) + text("WAVE") + sizes + wav_format({}) +
                       text("data") + number(0xFFFF'FFFF, 4) + data;
    expect_samples_of(wav({}, data), wide, "a.wav");
  }
}

// In silence, a block of MS ADPCM is its header (a predictor, a step and two samples) and zeros,
// one of IMA ADPCM a sample, the place in the table of steps, and zeros. Small steps stay at zero.
TEST(SoundProperties, CompressedWavHasTheSamplesOfItsBlocks) {
  struct Case {
    WavSpec spec;
    std::size_t bytes;
    std::int64_t frames;
  };
  const WavSpec ms{.tag = 2, .block = 256, .bits = 4, .block_frames = 500};
  const WavSpec ms_stereo{.tag = 2, .channels = 2, .block = 512, .bits = 4, .block_frames = 500};
  const WavSpec ima{.tag = 0x11, .block = 256, .bits = 4, .block_frames = 505};
  const WavSpec ima_stereo{
      .tag = 0x11, .channels = 2, .block = 512, .bits = 4, .block_frames = 505};
  const WavSpec gsm{.tag = 0x31, .block = 65, .bits = 0, .block_frames = 320};
  for (const Case& c : std::vector<Case>{{ms, 512, 1000},
                                         {ms_stereo, 512, 500},
                                         {ima, 512, 1010},
                                         {ima, 256 + 24, 546},
                                         {ima_stereo, 512, 505},
                                         {ima_stereo, 512 + 18, 514},
                                         {gsm, 195, 960}}) {
    SCOPED_TRACE(testing::Message() << c.spec.tag << ' ' << c.bytes);
    const auto sound = read(wav(c.spec, Bytes(c.bytes)), "a.wav");
    ASSERT_TRUE(sound.has_value()) << sound.error().to_string();
    EXPECT_EQ(sound->shape.frames, c.frames);
    EXPECT_GE(std::ssize(sound->samples), c.frames);
    EXPECT_EQ(sound->shape.format, MediaFormat::kWav);
  }
  EXPECT_THAT(
      error_of(wav({.tag = 2, .channels = 3, .block = 768, .bits = 4}, Bytes(768)), "a.wav"),
      HasSubstr("block size does not fit its encoding"));
  EXPECT_THAT(error_of(wav({.tag = 2, .block = 7, .bits = 4}, Bytes(70)), "a.wav"),
              HasSubstr("block size does not fit its encoding"));
}

// The frame of the tag holds no audio, and the delay that it states counts, as in ffmpeg.
TEST(SoundProperties, Mp3HeadersNeedNotCountFrames) {
  const Bytes mp3 = tone(MediaFormat::kMp3, 44'100, 1, 20'000);
  const auto info = std::ranges::search(mp3, text("Xing"));
  ASSERT_FALSE(info.empty());
  const auto at = info.begin() - mp3.begin();
  const auto plain = read(mp3, "a.mp3");
  ASSERT_TRUE(plain.has_value()) << plain.error().to_string();
  Bytes zeros = mp3;
  std::ranges::fill_n(zeros.begin() + at + 8, 8, std::byte{0});  // frames and bytes
  Bytes without = mp3;  // of the fields, only the table is there, 4 bytes earlier
  without[static_cast<std::size_t>(at) + 7] &= std::byte{0x0E};
  without.erase(without.begin() + at + 8, without.begin() + at + 12);
  without.insert(without.begin() + at + 152, 4, std::byte{0});
  for (const Bytes& bytes : {zeros, without}) {
    const auto sound = read(bytes, "a.mp3");
    ASSERT_TRUE(sound.has_value()) << sound.error().to_string();
    // The tag no longer tells how many samples fill the last frame.
    EXPECT_GT(sound->shape.frames, plain->shape.frames);
    EXPECT_LT(sound->shape.frames, plain->shape.frames + 2 * 1152);
    ASSERT_GE(sound->samples.size(), plain->samples.size());
    const std::span head = std::span(sound->samples).first(plain->samples.size());
    EXPECT_TRUE(std::ranges::equal(head, plain->samples));
  }
}

/// An MP3 without a header that tells its length.
Bytes plain_mp3(std::int64_t samples) {
  Bytes mp3 = tone(MediaFormat::kMp3, 44'100, 1, samples);
  const auto tag = std::ranges::search(mp3, text("Xing"));
  EXPECT_FALSE(tag.empty());
  std::ranges::fill(tag, std::byte{0});
  return mp3;
}

TEST(SoundProperties, Mp3MayBeFollowedByBytesThatAreNoTag) {
  const Bytes mp3 = plain_mp3(20'000);
  for (const std::size_t junk : {1U, 20U, 3000U, 100'000U}) {
    expect_samples_of(mp3, mp3 + text(std::string(junk, 'J')), "a.mp3");
  }
  expect_samples_of(mp3, mp3 + text("JUNK") + id3v1(), "a.mp3");
}

TEST(SoundProperties, Mp3WithOtherBytesBetweenItsFramesIsRefused) {
  const Bytes mp3 = plain_mp3(20'000);
  std::vector<std::size_t> frames;
  for (std::size_t at = 0; at + 4 < mp3.size(); ++at) {
    if (mp3[at] == std::byte{0xFF} && mp3[at + 1] == std::byte{0xFB}) frames.push_back(at);
  }
  ASSERT_GE(frames.size(), 8U);
  // More than is searched may be the rest of the sound behind a hole.
  EXPECT_THAT(error_of(mp3 + text(std::string(1'100'000, 'J')), "a.mp3"),
              HasSubstr("between its frames"));
  for (const std::size_t at : {frames[4], frames[frames.size() - 2], frames.back()}) {
    Bytes broken = mp3;
    const Bytes junk = text("JUNKJUNKJUNK");
    broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(at), junk.begin(), junk.end());
    EXPECT_THAT(error_of(broken, "a.mp3"), HasSubstr("between its frames; `ffmpeg -i FILE"));
  }
}

TEST(SoundProperties, WavsOneAfterAnotherAreNamed) {
  const Bytes wav = tone(MediaFormat::kWav, 16'000, 1, 2'000);
  EXPECT_THAT(error_of(wav + wav, "a.wav"),
              HasSubstr("another WAV begins at byte " + std::to_string(wav.size())));
}

TEST(SoundProperties, Mp3OfFreeFormatIsNamed) {
  Bytes mp3 = plain_mp3(20'000);
  for (std::size_t at = 0; at + 4 < mp3.size(); ++at) {
    if (mp3[at] == std::byte{0xFF} && mp3[at + 1] == std::byte{0xFB})
      mp3[at + 2] &= std::byte{0x0F};
  }
  EXPECT_THAT(error_of(mp3, "a.mp3"), HasSubstr("its MP3 is of free format, which is not read"));
}

// iTunes counts the frame of the header, and tells neither delay nor padding.
TEST(SoundProperties, Mp3HeadersMayCountTheirOwnFrame) {
  for (const std::int32_t rate : {8'000, 11'025, 44'100}) {
    const Bytes mp3 = tone(MediaFormat::kMp3, rate, 1, rate);
    const auto tag = std::ranges::search(mp3, text("Xing"));
    ASSERT_FALSE(tag.empty());
    const auto at = static_cast<std::size_t>(tag.begin() - mp3.begin());
    constexpr std::size_t kFrames = 8;  // behind the name and the flags
    constexpr std::size_t kLame = 120;  // behind frames, bytes, table and quality
    Bytes counted = mp3;
    std::ranges::fill_n(counted.begin() + static_cast<std::ptrdiff_t>(at + kLame), 24,
                        std::byte{0});
    std::uint32_t frames = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      frames = frames << 8 | std::to_integer<std::uint32_t>(counted[at + kFrames + i]);
    }
    const auto with = [&](std::uint32_t stated) {
      Bytes bytes = counted;
      const Bytes value = number(stated, 4, true);
      std::ranges::copy(value, bytes.begin() + static_cast<std::ptrdiff_t>(at + kFrames));
      return bytes;
    };
    expect_samples_of(with(frames), with(frames + 1), "a.mp3");
    const auto sound = read(with(frames + 1), "a.mp3");
    ASSERT_TRUE(sound.has_value()) << sound.error().to_string();
    EXPECT_EQ(sound->shape.frames, std::int64_t{frames} * (rate > 30'000 ? 1152 : 576));
    EXPECT_EQ(std::ssize(sound->samples), sound->shape.frames);
    EXPECT_THAT(error_of(with(frames + 2), "a.mp3"), HasSubstr("cut off: its MP3 header says"));
  }
}

TEST(SoundProperties, Mp3WithinWavIsReadAsMp3) {
  const Bytes mp3 = tone(MediaFormat::kMp3, 44'100, 2, 20'000);
  const Bytes list = chunk("LIST", text("INFOISFT") + number(4, 4) + text("abc") + Bytes(1));
  const WavSpec spec{.tag = 0x55, .channels = 2, .rate = 44'100, .block = 1152, .bits = 0};
  const auto plain = read(mp3, "a.mp3");
  ASSERT_TRUE(plain.has_value()) << plain.error().to_string();
  for (const Bytes& behind : {Bytes(), list}) {
    const auto sound = read(wav(spec, mp3, behind), "a.wav");
    ASSERT_TRUE(sound.has_value()) << sound.error().to_string();
    EXPECT_EQ(sound->shape.format, MediaFormat::kMp3);
    EXPECT_EQ(sound->samples, plain->samples);
  }
}

constexpr std::uint64_t kAiffSound = 8000;  ///< Samples.

/// An AIFF of one channel and 16 bits at 16 kHz, with values that its header and chunks state.
Bytes aiff(std::uint64_t frames, std::uint64_t form_bytes = 0, std::uint64_t data_bytes = 0) {
  const Bytes rate = text(std::string_view("\x40\x0C\xFA\0\0\0\0\0\0\0", 10));
  const Bytes data = Bytes(8) + pcm(kAiffSound, 2, true);
  const Bytes common = chunk(
      "COMM", number(1, 2, true) + number(frames, 4, true) + number(16, 2, true) + rate, true);
  Bytes body = text("AIFF") + common;
  body = std::move(body) + text("SSND") +
         number(data_bytes != 0 ? data_bytes : data.size(), 4, true) + data;
  return text("FORM") + number(form_bytes != 0 ? form_bytes : body.size(), 4, true) + body;
}

TEST(SoundProperties, OggMayBeFollowedByATagOrZeros) {
  for (const MediaFormat format : {MediaFormat::kOggVorbis, MediaFormat::kOpus}) {
    const Bytes ogg = tone(format, 48'000, 1, 30'000);
    expect_samples_of(ogg, ogg + id3v1(), "a.ogg");
    expect_samples_of(ogg, ogg + Bytes(5000), "a.ogg");
    expect_samples_of(ogg, ogg + Bytes(100) + id3v1(), "a.ogg");
    EXPECT_THAT(error_of(ogg + text("words"), "a.ogg"), HasSubstr("cut off"));
    EXPECT_THAT(error_of(std::span(ogg).first(ogg.size() - 200), "a.ogg"), HasSubstr("cut off"));
  }
}

// The byte behind the last whole sample counts, and the one that fills it up may be missing.
TEST(SoundProperties, AiffMayHaveAnOddNumberOfBytes) {
  const Bytes plain = aiff(kAiffSound);
  const std::uint64_t data = 8 + 2 * kAiffSound + 1;
  const std::uint64_t form = plain.size() - 8 + 2;
  expect_samples_of(plain, aiff(kAiffSound, form, data) + Bytes(2), "a.aiff");
  expect_samples_of(plain, aiff(kAiffSound, form, data) + Bytes(1), "a.aiff");
  expect_samples_of(plain, aiff(kAiffSound, form - 1, data) + Bytes(1), "a.aiff");
}

TEST(SoundProperties, AiffsOneAfterAnotherAreNamed) {
  const Bytes plain = aiff(kAiffSound);
  EXPECT_THAT(error_of(plain + plain, "a.aiff"), HasSubstr("several AIFF files one after another"));
}

TEST(SoundProperties, AiffHasTheSamplesThatAreThere) {
  const Bytes plain = aiff(kAiffSound);
  expect_samples_of(plain, aiff(1000), "a.aiff");
  expect_samples_of(plain, aiff(90'000), "a.aiff");
  expect_samples_of(plain, aiff(0x1FFF'FFFF, 0x7FFF'FFF0, 0x7FFF'FFD0), "a.aiff");  // as of a pipe
  EXPECT_THAT(error_of(aiff(kAiffSound, 100, 2 * kAiffSound + 100), "a.aiff"),
              HasSubstr("cut off"));
}

Bytes caf(std::uint64_t data_bytes) {
  const Bytes rate = text(std::string_view("\x40\xCF\x40\0\0\0\0\0", 8));  // 16000.0
  const Bytes description = rate + text("lpcm") + number(0, 4) + number(2, 4, true) +
                            number(1, 4, true) + number(1, 4, true) + number(16, 4, true);
  return text("caff") + number(1, 2, true) + Bytes(2) + text("desc") +
         number(description.size(), 8, true) + description + text("data") +
         number(data_bytes, 8, true) + Bytes(4) + pcm(3000, 2, true);
}

TEST(SoundProperties, CafNeedNotStateTheSizeOfItsLastChunk) {
  expect_samples_of(caf(6004), caf(UINT64_MAX), "a.caf");
}

}  // namespace
}  // namespace isocost::test
