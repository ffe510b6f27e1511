#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "decode/video/video.h"
#include "tests/support/av_media.h"

namespace isocost::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::int64_t kManyPixels = 178'956'970;

Result<PartShape> probe_bytes(std::span<const std::byte> bytes, MediaFormat format) {
  return probe_video(MemoryByteSource(bytes), format, kManyPixels);
}

struct Combination {
  MediaFormat container;
  const char* encoder;
  int b_frames;
};

constexpr Combination kCombinations[] = {
    {MediaFormat::kMp4, "libx264", 0},      {MediaFormat::kMp4, "libx264", 2},
    {MediaFormat::kMp4, "libx265", 2},      {MediaFormat::kMp4, "mpeg4", 0},
    {MediaFormat::kMp4, "libvpx-vp9", 0},   {MediaFormat::kMatroska, "libx264", 2},
    {MediaFormat::kMatroska, "libx265", 0}, {MediaFormat::kMatroska, "libvpx-vp9", 0},
    {MediaFormat::kMatroska, "libvpx", 0},  {MediaFormat::kAvi, "mpeg4", 0},
    {MediaFormat::kAvi, "libx264", 0},
};

TEST(VideoProbe, TellsSizeAndDurationOfEveryContainerAndCodec) {
  for (const Combination& c : kCombinations) {
    VideoSpec spec;
    spec.container = c.container;
    spec.encoder = c.encoder;
    spec.b_frames = c.b_frames;
    spec.frames = 23;
    const Bytes bytes = make_video(spec);
    const auto shape = probe_bytes(bytes, c.container);
    ASSERT_TRUE(shape.has_value()) << c.encoder << ' ' << shape.error().to_string();
    EXPECT_EQ(shape->modality, Modality::kVideo);
    EXPECT_EQ(shape->format, c.container);
    EXPECT_EQ(shape->width, 96);
    EXPECT_EQ(shape->height, 64);
    EXPECT_EQ(shape->orientation, 1);
    EXPECT_NEAR(static_cast<double>(shape->duration_us), 2.3e6, 1e3) << c.encoder;
    EXPECT_EQ(shape->encoded_bytes, static_cast<std::int64_t>(bytes.size()));
  }
}

TEST(VideoProbe, FindsTheIndexAtEitherEndWithFewReads) {
  for (const bool at_start : {false, true}) {
    VideoSpec spec;
    spec.frames = 300;
    spec.moov_at_start = at_start;
    spec.encoder = "mpeg4";
    spec.width = spec.height = 320;
    const Bytes bytes = make_video(spec);
    const MemoryByteSource memory(bytes);
    const CountingByteSource source(memory);
    const auto shape = probe_video(source, MediaFormat::kMp4, kManyPixels);
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    EXPECT_EQ(shape->duration_us, 30'000'000);
    EXPECT_LT(source.bytes_read(), source.size() / 2);
  }
}

struct Probed {
  std::int64_t frames = 0;
  double share = 0;  ///< Share of the bytes that was read.
};

// Probes a video of about a megabyte; checks that it has as many frames as its packets show.
Probed probe_large(VideoSpec spec) {
  spec.encoder = "libx264";
  spec.noise = true;
  spec.width = spec.height = 320;
  spec.gop = 5;
  const Bytes bytes = make_video(spec);
  const MemoryByteSource memory(bytes);
  const CountingByteSource source(memory);
  const auto shape = probe_video(source, MediaFormat::kMp4, kManyPixels);
  if (!shape) throw std::runtime_error(shape.error().to_string());
  EXPECT_EQ(shape->frames, std::ssize(video_frame_times(memory, MediaFormat::kMp4).value().us));
  return {shape->frames,
          static_cast<double>(source.bytes_read()) / static_cast<double>(source.size())};
}

// A picture like the one before takes about ten bytes, and so does the end of a sequence.
TEST(VideoProbe, ReadsOfAllSamplesOnlyTheTiny) {
  constexpr double kFew = 0.1;
  const std::vector<std::uint8_t> end_of_sequence = {0, 0, 0, 1, 0x0A};
  const Probed still = probe_large({.frames = 200, .still_from = 100});
  EXPECT_EQ(still.frames, 200);
  EXPECT_LT(still.share, kFew);
  const Probed ended = probe_large({.frames = 200, .end = end_of_sequence});
  EXPECT_EQ(ended.frames, 200);
  EXPECT_LT(ended.share, kFew);
  const Probed both =
      probe_large({.frames = 200, .b_frames = 2, .still_from = 100, .end = end_of_sequence});
  EXPECT_EQ(both.frames, 200);
  EXPECT_LT(both.share, kFew);
}

// Which frames behind the end of a sequence are shown, only their packets tell.
TEST(VideoProbe, ReadsAllBehindAnEndOfSequence) {
  const Probed probed = probe_large({.frames = 200, .repeats = 2, .end = {0, 0, 0, 1, 0x0A}});
  EXPECT_EQ(probed.frames, 202);
  EXPECT_GT(probed.share, 0.9);
}

TEST(VideoProbe, MeasuresWhereTheContainerDoesNotSay) {
  VideoSpec fragmented;
  fragmented.fragmented = true;
  fragmented.frames = 57;
  VideoSpec live;
  live.container = MediaFormat::kMatroska;
  live.live = true;
  live.frames = 57;
  for (const VideoSpec& spec : {fragmented, live}) {
    const auto shape = probe_bytes(make_video(spec), spec.container);
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    EXPECT_NEAR(static_cast<double>(shape->duration_us), 5.7e6, 101e3);
  }
}

// A live Matroska file whose first cluster begins near the end of 64 bits, in milliseconds.
Bytes far_in_the_future(const VideoSpec& live) {
  const Bytes file = make_video(live);
  constexpr std::array<std::uint8_t, 4> kCluster{0x1F, 0x43, 0xB6, 0x75};
  const auto as_byte = [](std::uint8_t value) { return static_cast<std::byte>(value); };
  const auto cluster =
      std::ranges::search(file, kCluster, {}, {}, as_byte).begin() - file.begin() + 4;
  const auto at = static_cast<std::size_t>(cluster);
  // Its size, to be given in eight bytes as unknown, and its time: E7, one byte, 0.
  const auto size_bytes =
      static_cast<std::size_t>(std::countl_zero(static_cast<std::uint8_t>(file.at(at)))) + 1;
  Bytes out(file.begin(), file.begin() + cluster);
  for (const std::uint8_t value : {0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,  //
                                   0xE7, 0x88, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00}) {
    out.push_back(as_byte(value));
  }
  constexpr std::size_t kChecksum = 6;  // which is left out
  const std::size_t time = at + size_bytes + kChecksum;
  EXPECT_EQ(file.at(time), as_byte(0xE7));
  EXPECT_EQ(file.at(time + 1), as_byte(0x81));
  out.insert(out.end(), file.begin() + static_cast<std::ptrdiff_t>(time) + 3, file.end());
  return out;
}

TEST(VideoProbe, RefusesTimesThatDoNotFit) {
  VideoSpec live;
  live.container = MediaFormat::kMatroska;
  live.live = true;
  const auto shape = probe_bytes(far_in_the_future(live), MediaFormat::kMatroska);
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(shape.error().message(), HasSubstr("impossible times"));
}

TEST(VideoProbe, TellsTheVideosDurationNotTheSounds) {
  for (const MediaFormat container :
       {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi}) {
    VideoSpec spec;
    spec.container = container;
    spec.encoder = "mpeg4";
    spec.silence_s = 9;
    const auto shape = probe_bytes(make_video(spec), container);
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    EXPECT_NEAR(static_cast<double>(shape->duration_us), 2e6, 101e3);
  }
}

TEST(VideoProbe, TurnsWidthAndHeightAsDisplayed) {
  constexpr std::pair<int, int> kTurns[] = {{90, 6}, {180, 3}, {270, 8}};
  for (const auto& [degrees, orientation] : kTurns) {
    VideoSpec spec;
    spec.clockwise_degrees = degrees;
    const auto shape = probe_bytes(make_video(spec), MediaFormat::kMp4);
    ASSERT_TRUE(shape.has_value());
    EXPECT_EQ(shape->orientation, orientation);
    EXPECT_EQ(shape->width, degrees == 180 ? 96 : 64);
  }
}

Bytes with_matrix(Bytes bytes, const std::array<std::int32_t, 9>& matrix) {
  constexpr std::array kHeader = {std::byte{'t'}, std::byte{'k'}, std::byte{'h'}, std::byte{'d'}};
  constexpr std::ptrdiff_t kMatrix = 44;
  auto at = std::ranges::search(bytes, kHeader).begin() + kMatrix;
  for (const std::int32_t value : matrix) {
    for (int shift = 24; shift >= 0; shift -= 8) *at++ = static_cast<std::byte>(value >> shift);
  }
  return bytes;
}

TEST(VideoProbe, TakesAMatrixWithRemaindersForItsTurn) {
  constexpr std::int32_t kOne = 1 << 16;
  constexpr std::int32_t kW = 1 << 30;
  const Bytes bytes = make_video({});
  const auto probed = [&](const std::array<std::int32_t, 9>& matrix) {
    return probe_bytes(with_matrix(bytes, matrix), MediaFormat::kMp4);
  };
  const auto quarter = probed({1, kOne, 0, -kOne, -2, 0, 0, 0, kW});
  ASSERT_TRUE(quarter.has_value()) << quarter.error().to_string();
  EXPECT_EQ(quarter->width, 64);
  EXPECT_EQ(quarter->orientation, 6);
  const auto half = probed({-kOne, 3, 0, -2, 1 - kOne, 0, 0, 0, kW});
  ASSERT_TRUE(half.has_value()) << half.error().to_string();
  EXPECT_EQ(half->orientation, 3);
  const auto unset = probed({});
  ASSERT_TRUE(unset.has_value()) << unset.error().to_string();
  EXPECT_EQ(unset->orientation, 1);
  const auto slanted = probed({kOne, kOne / 10, 0, -kOne / 10, kOne, 0, 0, 0, kW});
  ASSERT_FALSE(slanted.has_value());
  EXPECT_EQ(slanted.error().code(), ErrorCode::kUnsupported);
}

TEST(VideoProbe, Mp4MayBeFollowedByOtherBytes) {
  for (const bool moov_at_start : {false, true}) {
    VideoSpec spec;
    spec.moov_at_start = moov_at_start;
    const Bytes video = make_video(spec);
    for (const std::string& more : {"TAG" + std::string(125, 'x'), std::string(1000, '\0'),
                                    std::string("abc"), std::string(500, 'g')}) {
      Bytes bytes = video;
      for (const char c : more) bytes.push_back(static_cast<std::byte>(c));
      const auto shape = probe_bytes(bytes, MediaFormat::kMp4);
      ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
      EXPECT_EQ(shape->frames, spec.frames);
    }
  }
}

// Demuxers read the first, or all with times that restart.
TEST(VideoProbe, NamesFilesOneAfterAnother) {
  struct Case {
    MediaFormat format;
    const char* encoder;
  };
  for (const Case& c : {Case{MediaFormat::kMp4, "libx264"}, Case{MediaFormat::kMatroska, "libx264"},
                        Case{MediaFormat::kAvi, "mpeg4"}}) {
    VideoSpec spec;
    spec.container = c.format;
    spec.encoder = c.encoder;
    Bytes bytes = make_video(spec);
    const Bytes second = bytes;
    bytes.insert(bytes.end(), second.begin(), second.end());
    const auto shape = probe_bytes(bytes, c.format);
    ASSERT_FALSE(shape.has_value()) << static_cast<int>(c.format);
    EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(shape.error().message(), HasSubstr("one after another"));
  }
}

TEST(VideoProbe, RefusesAVideoWithoutVideoStream) {
  for (const MediaFormat container :
       {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi}) {
    const auto shape = probe_bytes(make_video_without_video(container), container);
    ASSERT_FALSE(shape.has_value());
    EXPECT_EQ(shape.error().code(), ErrorCode::kNotFound);
    EXPECT_THAT(shape.error().message(), HasSubstr("no video stream"));
  }
}

TEST(VideoProbe, RefusesAVideoWithoutFrames) {
  for (const MediaFormat container :
       {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi}) {
    VideoSpec spec;
    spec.container = container;
    spec.encoder = "mpeg4";
    spec.frames = 0;
    const auto shape = probe_bytes(make_video(spec), container);
    ASSERT_FALSE(shape.has_value());
    EXPECT_THAT(shape.error().code(), AnyOf(ErrorCode::kCorrupt, ErrorCode::kNotFound));
    EXPECT_THAT(shape.error().message(),
                AnyOf(HasSubstr("no frames"), HasSubstr("no video stream")));
  }
}

TEST(VideoProbe, NamesACodecThatIsNotDecoded) {
  VideoSpec spec;
  spec.container = MediaFormat::kAvi;
  spec.encoder = "utvideo";
  spec.fps = 25;
  const auto shape = probe_bytes(make_video(spec), MediaFormat::kAvi);
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(shape.error().message(), HasSubstr("utvideo"));
}

TEST(VideoProbe, RefusesMorePixelsThanTheLimit) {
  const Bytes bytes = make_video({});
  const auto shape = probe_video(MemoryByteSource(bytes), MediaFormat::kMp4, 96 * 64 - 1);
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kResourceExhausted);
}

TEST(VideoProbe, RefusesEveryCut) {
  for (const MediaFormat container :
       {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi}) {
    for (const bool at_start : {false, true}) {
      VideoSpec spec;
      spec.container = container;
      spec.encoder = "mpeg4";
      spec.moov_at_start = at_start;
      const Bytes bytes = make_video(spec);
      for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 211) {
        const auto shape = probe_bytes(std::span(bytes).first(cut), container);
        ASSERT_FALSE(shape.has_value()) << cut << " of " << bytes.size();
        EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt) << shape.error().to_string();
      }
    }
  }
}

TEST(VideoProbe, RefusesForeignBytes) {
  const Bytes junk(4096, std::byte{0x5A});
  const Bytes mp4 = make_video({});
  EXPECT_EQ(probe_bytes(junk, MediaFormat::kMp4).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(probe_bytes(mp4, MediaFormat::kMatroska).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(probe_bytes(mp4, MediaFormat::kAvi).error().code(), ErrorCode::kCorrupt);
}

TEST(VideoProbe, RefusesATableThatClaimsMoreThanTheFile) {
  Bytes bytes = make_video({});
  for (std::size_t i = 0; i + 16 < bytes.size(); ++i) {
    if (std::memcmp(&bytes[i], "stsz", 4) != 0) continue;
    std::memset(&bytes[i + 8], 0x01, 4);   // every sample of 16 MB
    std::memset(&bytes[i + 12], 0x7F, 4);  // two thousand million of them
  }
  const auto shape = probe_bytes(bytes, MediaFormat::kMp4);
  ASSERT_FALSE(shape.has_value());
  EXPECT_THAT(shape.error().message(), HasSubstr("cut off"));
}

// A run of samples that are alike takes no bytes for each of them.
TEST(VideoProbe, RefusesFragmentsThatClaimMoreSamplesThanTheFileHasBytes) {
  VideoSpec spec;
  spec.fragmented = true;
  Bytes bytes = make_video(spec);
  ASSERT_TRUE(probe_bytes(bytes, MediaFormat::kMp4).has_value());
  for (std::size_t i = 0; i + 12 < bytes.size(); ++i) {
    if (std::memcmp(&bytes[i], "trun", 4) != 0) continue;
    bytes[i + 6] = std::byte{0};     // no fields for each sample
    bytes[i + 9] = std::byte{0xFF};  // samples, times 65,536
  }
  const auto shape = probe_bytes(bytes, MediaFormat::kMp4);
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(shape.error().message(), HasSubstr("cut off: its fragments say"));
}

TEST(VideoProbe, PassesOnTheSourcesError) {
  const Bytes bytes = make_video({});
  const MemoryByteSource memory(bytes);
  for (const std::int64_t from : {std::int64_t{0}, std::int64_t{40}, memory.size() - 100}) {
    const auto shape = probe_video(FailingByteSource(memory, from), MediaFormat::kMp4, kManyPixels);
    ASSERT_FALSE(shape.has_value());
    EXPECT_EQ(shape.error().code(), ErrorCode::kIo);
  }
}

}  // namespace
}  // namespace isocost::test
