#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/random.h"
#include "decode/audio/audio.h"
#include "decode/audio/log_mel.h"
#include "tests/support/av_media.h"

namespace isocost::test {
namespace {

using ::testing::HasSubstr;

/// The definition, in double precision and without any thrift.
std::vector<double> reference_log_mel(const std::vector<float>& samples) {
  const auto n = static_cast<std::int64_t>(samples.size());
  const std::int64_t frames = n / 160;
  auto mel = [](double hz) {
    return hz < 1000 ? hz * 3 / 200 : 15 + 27 * std::log(hz / 1000) / std::log(6.4);
  };
  auto hz = [](double m) { return m < 15 ? m * 200 / 3 : 1000 * std::pow(6.4, (m - 15) / 27); };
  std::vector<double> rows;
  double loudest = -1e9;
  for (std::int64_t f = 0; f < frames; ++f) {
    std::array<double, 201> power{};
    for (int k = 0; k <= 200; ++k) {
      std::complex<double> sum = 0;
      for (int i = 0; i < 400; ++i) {
        std::int64_t at = std::abs(f * 160 - 200 + i);
        if (at >= n) at = 2 * (n - 1) - at;
        const double hann = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / 400);
        sum += samples[static_cast<std::size_t>(at)] * hann *
               std::polar(1.0, -2 * std::numbers::pi * k * i / 400);
      }
      power[static_cast<std::size_t>(k)] = std::norm(sum);
    }
    for (int m = 0; m < 128; ++m) {
      const double low = hz(mel(8000) * m / 129);
      const double centre = hz(mel(8000) * (m + 1) / 129);
      const double high = hz(mel(8000) * (m + 2) / 129);
      double sum = 0;
      for (int k = 0; k <= 200; ++k) {
        const double at = 40.0 * k;
        const double weight = std::min((at - low) / (centre - low), (high - at) / (high - centre));
        sum += std::max(0.0, weight) * 2 / (high - low) * power[static_cast<std::size_t>(k)];
      }
      rows.push_back(std::log10(std::max(sum, 1e-10)));
      loudest = std::max(loudest, rows.back());
    }
  }
  for (double& v : rows) v = (std::max(v, loudest - 8) + 4) / 4;
  return rows;
}

struct Decoded {
  PartShape shape;
  AudioPlan plan;
  std::vector<float> mel;
};

Result<Decoded> decode(std::span<const std::byte> bytes, MediaFormat format,
                       double max_seconds = 120) {
  const MemoryByteSource source(bytes);
  Decoded d;
  ISOCOST_ASSIGN(d.shape, probe_audio(source, format));
  d.plan = plan_audio(d.shape, max_seconds);
  const auto frames = std::accumulate(d.plan.window_frames.begin(), d.plan.window_frames.end(), 0);
  d.mel.resize(static_cast<std::size_t>(frames) * 128);
  ISOCOST_TRY(audio_log_mel(source, d.shape, d.plan, d.mel));
  return d;
}

std::size_t loudest_bin(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

TEST(LogMel, AgreesWithTheDefinition) {
  Random random(7);
  std::vector<float> samples = sine(16'000, 1, 160 * 8, 1234);
  for (float& s : samples) s += static_cast<float>(0.01 * (random.uniform() - 0.5));
  std::vector<float> rows(8 * 128);
  ASSERT_TRUE(log_mel(samples, rows).has_value());
  const std::vector<double> expected = reference_log_mel(samples);
  for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(rows[i], expected[i], 1e-4) << i;
}

TEST(LogMel, GivesTheFloorForSilence) {
  std::vector<float> rows(4 * 128);
  ASSERT_TRUE(log_mel(std::vector<float>(640), rows).has_value());
  for (const float v : rows) EXPECT_FLOAT_EQ(v, -1.5F);
}

TEST(LogMel, RefusesSizesThatDoNotFit) {
  std::vector<float> rows(4 * 128);
  EXPECT_FALSE(log_mel(std::vector<float>(480), rows).has_value());
  EXPECT_FALSE(log_mel(std::vector<float>(641), rows).has_value());
  EXPECT_FALSE(log_mel(std::vector<float>(1280), rows).has_value());
}

TEST(ExactLogMel, AgreesWithTheDefinitionFarBelowALoudTone) {
  const std::vector<float> samples = sine(16'000, 1, 160 * 8, 1234);
  std::vector<float> rows(10 * 128);
  ASSERT_TRUE(exact_log_mel(samples, 128, rows).has_value());
  const std::vector<double> expected = reference_log_mel(samples);
  for (std::size_t i = 0; i < 8 * 128; ++i) ASSERT_NEAR(rows[i], expected[i], 1e-6) << i;
  const double floor = *std::max_element(expected.begin(), expected.end()) - 2;
  for (std::size_t i = 8 * 128; i < rows.size(); ++i) ASSERT_NEAR(rows[i], floor, 1e-6) << i;
}

TEST(ExactLogMel, RefusesSizesAndBinsThatDoNotFit) {
  std::vector<float> rows(4 * 80);
  EXPECT_TRUE(exact_log_mel(std::vector<float>(640), 80, rows).has_value());
  EXPECT_FALSE(exact_log_mel(std::vector<float>(480), 80, rows).has_value());
  EXPECT_FALSE(exact_log_mel(std::vector<float>(800), 80, rows).has_value());
  EXPECT_FALSE(exact_log_mel(std::vector<float>(640), 64, rows).has_value());
  EXPECT_FALSE(exact_log_mel(std::vector<float>(640), 80, std::span(rows).first(319)).has_value());
}

TEST(AudioPlan, AClipHasThreeFramesBehindItsOwn) {
  PartShape shape;
  shape.sample_rate = 16'000;
  const auto frames_of = [&shape](std::int64_t samples) {
    shape.frames = samples;
    return plan_clip(shape, 80).window_frames;
  };
  EXPECT_EQ(frames_of(1), std::vector<std::int32_t>{4});
  EXPECT_EQ(frames_of(160), std::vector<std::int32_t>{4});
  EXPECT_EQ(frames_of(161), std::vector<std::int32_t>{5});
  EXPECT_EQ(frames_of(480'000), std::vector<std::int32_t>{3003});
  EXPECT_EQ(frames_of(std::int64_t{1} << 44), std::vector<std::int32_t>{3003});
}

TEST(AudioPlan, CountsSamplesAndWindowsInIntegers) {
  PartShape shape;
  shape.sample_rate = 44'100;
  shape.frames = 44'100 * 65 + 1;
  EXPECT_EQ(audio_samples_16k(shape, 1000), 16'000 * 65);
  EXPECT_EQ(audio_samples_16k(shape, 10.5), 168'000);
  const AudioPlan plan = plan_audio(shape, 1000);
  EXPECT_EQ(plan.window_frames, (std::vector<std::int32_t>{3000, 3000, 500}));
  shape.frames = 1;
  EXPECT_EQ(audio_samples_16k(shape, 10), 1);
  EXPECT_EQ(plan_audio(shape, 10).window_frames, std::vector<std::int32_t>{4});
  shape.frames = std::int64_t{1} << 44;
  EXPECT_EQ(audio_samples_16k(shape, 120), 1'920'000);
}

TEST(AudioLogMel, FillsWholeWindowsOfEveryFormatAndRate) {
  for (const MediaFormat format : {MediaFormat::kWav, MediaFormat::kFlac, MediaFormat::kOggVorbis,
                                   MediaFormat::kOpus, MediaFormat::kMp3}) {
    for (const std::int32_t rate : {8000, 11'025, 22'050, 44'100, 48'000}) {
      if (format == MediaFormat::kOpus && rate != 8000 && rate != 48'000) continue;
      const std::int64_t frames = rate + 123;
      const auto d = decode(make_audio(format, sine(rate, 2, frames, 1000), rate, 2), format);
      ASSERT_TRUE(d.has_value()) << static_cast<int>(format) << ' ' << rate << ' '
                                 << d.error().to_string();
      ASSERT_EQ(d->plan.window_frames.size(), 1U);
      EXPECT_NEAR(d->plan.window_frames[0], 101, 12);
      // 1 kHz is mel 15 of 45.2: filter 128 * 15 / 45.2, the same at every rate.
      const std::size_t bin = loudest_bin(std::span(d->mel).subspan(std::size_t{50} * 128, 128));
      EXPECT_NEAR(static_cast<double>(bin), 42, 1) << static_cast<int>(format) << ' ' << rate;
    }
  }
}

TEST(AudioLogMel, EqualsTheMelOfTheSamplesAt16kHz) {
  const std::vector<float> samples = sine(16'000, 1, 6400, 500);
  const auto d = decode(make_wav(samples, 16'000, 1, WavEncoding::kFloat32), MediaFormat::kWav);
  ASSERT_TRUE(d.has_value()) << d.error().to_string();
  std::vector<float> expected(40 * 128);
  ASSERT_TRUE(log_mel(samples, expected).has_value());
  ASSERT_EQ(d->mel.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(d->mel[i], expected[i], 1e-6);
}

// A header of RF64, with the size of the samples in a chunk of its own, before a WAV's chunks.
Bytes as_rf64(const Bytes& wav, std::uint64_t size) {
  Bytes bytes;
  for (const char c : std::string_view("RF64\xFF\xFF\xFF\xFFWAVEds64\x1C")) {
    bytes.push_back(static_cast<std::byte>(c));
  }
  bytes.resize(20 + 8);
  for (std::size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(size >> (8 * i)));
  bytes.resize(20 + 28);
  bytes.insert(bytes.end(), wav.begin() + 12, wav.end());
  return bytes;
}

TEST(AudioLogMel, ReadsAWavOfUnknownSizeToItsEnd) {
  constexpr std::size_t kSamples = 6400;
  const Bytes wav = make_wav(sine(16'000, 1, kSamples, 500), 16'000, 1);
  const auto expected = decode(wav, MediaFormat::kWav);
  ASSERT_TRUE(expected.has_value()) << expected.error().to_string();
  std::vector<Bytes> files;
  for (const std::uint32_t size :
       {0U, 0x7FFFFFFFU, 0xFFFFFFFFU, 2 * std::uint32_t{kSamples} + 44}) {
    Bytes file = wav;
    const std::size_t at = file.size() - 2 * kSamples - 4;
    for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<std::byte>(size >> (8 * i));
    files.push_back(file);
  }
  for (const std::uint64_t size : {std::uint64_t{2 * kSamples}, std::uint64_t{0}, UINT64_MAX}) {
    files.push_back(as_rf64(files[2], size));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto d = decode(files[i], MediaFormat::kWav);
    ASSERT_TRUE(d.has_value()) << i << ' ' << d.error().to_string();
    EXPECT_EQ(d->mel, expected->mel) << i;
  }
}

TEST(AudioLogMel, MixesChannelsByTheirMean) {
  std::vector<float> stereo = sine(16'000, 2, 6400, 500);
  for (std::size_t i = 1; i < stereo.size(); i += 2) stereo[i] = -stereo[i];
  const auto d = decode(make_wav(stereo, 16'000, 2, WavEncoding::kFloat32), MediaFormat::kWav);
  ASSERT_TRUE(d.has_value());
  for (const float v : d->mel) ASSERT_FLOAT_EQ(v, -1.5F);
}

TEST(AudioLogMel, KeepsTimeThroughResampling) {
  // Silence, then a tone from 0.5 s on: the first loud mel frame is the one at 0.5 s.
  for (const std::int32_t rate : {8000, 44'100, 96'000}) {
    std::vector<float> samples = sine(rate, 1, rate, 1000);
    std::fill_n(samples.begin(), rate / 2, 0.0F);
    const auto d = decode(make_wav(samples, rate, 1, WavEncoding::kFloat32), MediaFormat::kWav);
    ASSERT_TRUE(d.has_value());
    std::size_t first = 0;
    while (d->mel[first * 128 + 42] < 0.5F) ++first;
    EXPECT_NEAR(static_cast<double>(first), 50, 1) << rate;
  }
}

TEST(AudioLogMel, ReadsNoFurtherThanMaxSeconds) {
  const Bytes bytes = make_wav(sine(16'000, 1, 16'000 * 120, 440), 16'000, 1);
  const MemoryByteSource memory(bytes);
  const CountingByteSource source(memory);
  const PartShape shape = *probe_audio(source, MediaFormat::kWav);
  const AudioPlan plan = plan_audio(shape, 2);
  EXPECT_EQ(plan.window_frames, std::vector<std::int32_t>{200});
  std::vector<float> mel(std::size_t{200} * 128);
  ASSERT_TRUE(audio_log_mel(source, shape, plan, mel).has_value());
  EXPECT_LT(source.bytes_read(), 32'000 * 8);
}

TEST(AudioLogMel, CutsLongAudioIntoWindows) {
  const std::vector<float> samples = sine(16'000, 1, 16'000 * 31, 700);
  const auto d = decode(make_wav(samples, 16'000, 1, WavEncoding::kFloat32), MediaFormat::kWav);
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->plan.window_frames, (std::vector<std::int32_t>{3000, 100}));
  std::vector<float> second(100 * 128);
  ASSERT_TRUE(log_mel(std::span(samples).subspan(480'000), second).has_value());
  for (std::size_t i = 0; i < second.size(); ++i) {
    ASSERT_NEAR(d->mel[std::size_t{3000} * 128 + i], second[i], 1e-6);
  }
}

TEST(AudioLogMel, RefusesNanAndSaysWhere) {
  std::vector<float> samples = sine(16'000, 1, 20'000, 440);
  samples[12'345] = std::numeric_limits<float>::quiet_NaN();
  auto d = decode(make_wav(samples, 16'000, 1, WavEncoding::kFloat32), MediaFormat::kWav);
  ASSERT_FALSE(d.has_value());
  EXPECT_EQ(d.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(d.error().message(), HasSubstr("sample 12345 is NaN"));
  samples[12'345] = std::numeric_limits<float>::infinity();
  d = decode(make_wav(samples, 16'000, 1, WavEncoding::kFloat32), MediaFormat::kWav);
  ASSERT_FALSE(d.has_value());
  EXPECT_THAT(d.error().message(), HasSubstr("12345 is infinite"));
}

TEST(AudioLogMel, GivesAnErrorOrRightDataForCutOffFiles) {
  for (const MediaFormat format : {MediaFormat::kWav, MediaFormat::kFlac, MediaFormat::kOggVorbis,
                                   MediaFormat::kOpus, MediaFormat::kMp3}) {
    const std::int32_t rate = format == MediaFormat::kOpus ? 48'000 : 22'050;
    const Bytes bytes = make_audio(format, sine(rate, 1, rate * 2, 1000), rate, 1);
    int good = 0;
    for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 61) {
      const auto d = decode(std::span(bytes).first(cut), format);
      if (d.has_value()) {
        ++good;
      } else {
        EXPECT_EQ(d.error().code(), ErrorCode::kCorrupt);
      }
    }
    EXPECT_EQ(good, 0) << static_cast<int>(format);  // each format can tell
  }
}

TEST(AudioLogMel, RefusesAnMp3WithDamageInTheMiddle) {
  Bytes bytes = make_audio(MediaFormat::kMp3, sine(22'050, 1, 44'100, 1000), 22'050, 1);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), 300, std::byte{0x11});
  const auto d = decode(bytes, MediaFormat::kMp3);
  ASSERT_FALSE(d.has_value());
  EXPECT_EQ(d.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(d.error().message(), HasSubstr("MP3 frame at byte"));
}

TEST(AudioLogMel, RefusesAnOggWithDamageInTheMiddle) {
  for (const MediaFormat format : {MediaFormat::kOggVorbis, MediaFormat::kOpus}) {
    Bytes bytes = make_audio(format, sine(48'000, 1, 96'000, 1000), 48'000, 1);
    bytes[bytes.size() / 2] ^= std::byte{0x10};
    const auto d = decode(bytes, format);
    ASSERT_FALSE(d.has_value());
    EXPECT_EQ(d.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(d.error().message(), HasSubstr("does not fit its checksum"));
  }
}

TEST(AudioLogMel, SaysThatAFlacStreamEndsEarly) {
  Bytes bytes = make_audio(MediaFormat::kFlac, sine(16'000, 1, 115'360, 1000), 16'000, 1);
  const std::uint32_t said = 160'000;
  for (int i = 0; i < 4; ++i) bytes[22 + i] = static_cast<std::byte>(said >> (24 - 8 * i));
  const auto d = decode(bytes, MediaFormat::kFlac);
  ASSERT_FALSE(d.has_value());
  EXPECT_THAT(d.error().message(), HasSubstr("ends early: the header says 10.00 s, decoded 7.21"));
}

TEST(AudioLogMel, RefusesAMelOfAnotherSize) {
  const Bytes bytes = make_wav(sine(16'000, 1, 16'000, 440), 16'000, 1);
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe_audio(source, MediaFormat::kWav);
  std::vector<float> mel(128);
  const auto status = audio_log_mel(source, shape, plan_audio(shape, 10), mel);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
}

TEST(AudioLogMel, PassesOnTheSourcesError) {
  const Bytes bytes = make_wav(sine(16'000, 1, 160'000, 440), 16'000, 1);
  const MemoryByteSource memory(bytes);
  const PartShape shape = *probe_audio(memory, MediaFormat::kWav);
  const AudioPlan plan = plan_audio(shape, 100);
  std::vector<float> mel(std::size_t{1000} * 128);
  const auto status = audio_log_mel(FailingByteSource(memory, 100'000), shape, plan, mel);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
}

// The resampler alone makes nothing of sounds that are shorter than its filter.
TEST(AudioLogMel, ReadsSoundsOfAFewSamples) {
  for (const std::int32_t rate : {1, 8000, 16'000, 22'050, 44'100, 48'000, 192'000, 768'000}) {
    for (const std::int64_t frames : {1L, 10L, 60L, 300L, 3000L}) {
      SCOPED_TRACE(testing::Message() << frames << " samples of " << rate << " Hz");
      const std::vector<float> loud(static_cast<std::size_t>(frames), 0.5F);
      const auto d = decode(make_wav(loud, rate, 1), MediaFormat::kWav, 1);
      ASSERT_TRUE(d.has_value()) << d.error().to_string();
      EXPECT_GT(*std::ranges::max_element(d->mel), -1.4F);  // silence is -1.5
    }
  }
}

TEST(AudioLogMel, SurvivesAudioOfOneHertz) {
  const auto d = decode(make_wav(std::vector<float>(5000, 0.25F), 1, 1), MediaFormat::kWav, 60);
  ASSERT_TRUE(d.has_value()) << d.error().to_string();
  EXPECT_EQ(d->plan.window_frames, (std::vector<std::int32_t>{3000, 3000}));
}

}  // namespace
}  // namespace isocost::test
