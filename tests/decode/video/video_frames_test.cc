#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_codecs.h"
#include "decode/shape/decode_limit.h"
#include "decode/video/internal/frame_reader.h"
#include "decode/video/internal/frame_scaler.h"
#include "decode/video/video.h"
#include "tests/support/av_media.h"

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/pixfmt.h>
}

namespace isocost::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kManyPixels = 178'956'970;

/// The numbers shown at `times_us`, through probe and decode.
Result<std::vector<int>> numbers_at(const ByteSource& source, MediaFormat container,
                                    const std::vector<std::int64_t>& times_us) {
  ISOCOST_ASSIGN(const PartShape shape, probe_video(source, container, kManyPixels));
  std::vector<int> numbers;
  ISOCOST_TRY(video_frames(source, shape, times_us, 56, 28,
                           [&](std::size_t index, std::span<const std::uint8_t> rgb) -> Status {
                             EXPECT_EQ(index, numbers.size());
                             EXPECT_EQ(rgb.size(), 56U * 28U * 3U);
                             numbers.push_back(shown_number(rgb, 56, 28));
                             return {};
                           }));
  return numbers;
}

struct Combination {
  MediaFormat container;
  const char* encoder;
  int b_frames;
  bool fragmented = false;
  bool live = false;
};

constexpr Combination kCombinations[] = {
    {MediaFormat::kMp4, "libx264", 0},       {MediaFormat::kMp4, "libx264", 3},
    {MediaFormat::kMp4, "libx264", 2, true}, {MediaFormat::kMp4, "libx265", 2},
    {MediaFormat::kMp4, "mpeg4", 2},         {MediaFormat::kMp4, "libvpx-vp9", 0},
    {MediaFormat::kMatroska, "libx264", 2},  {MediaFormat::kMatroska, "libx264", 0, false, true},
    {MediaFormat::kMatroska, "libx265", 0},  {MediaFormat::kMatroska, "libvpx-vp9", 0},
    {MediaFormat::kMatroska, "libvpx", 0},   {MediaFormat::kAvi, "mpeg4", 0},
    {MediaFormat::kAvi, "libx264", 0},
};

std::string name_of(const Combination& c) {
  return std::string(c.encoder) + " in " + std::to_string(static_cast<int>(c.container)) + " b" +
         std::to_string(c.b_frames) + (c.fragmented ? " fragmented" : "") + (c.live ? " live" : "");
}

Bytes video_of(const Combination& c, int frames, bool noise = false) {
  VideoSpec spec;
  spec.container = c.container;
  spec.encoder = c.encoder;
  spec.b_frames = c.b_frames;
  spec.fragmented = c.fragmented;
  spec.live = c.live;
  spec.frames = frames;
  spec.noise = noise;
  return make_video(spec);
}

TEST(VideoFrames, GivesEveryFrameOfEveryContainerAndCodec) {
  for (const Combination& c : kCombinations) {
    const Bytes bytes = video_of(c, 33);
    std::vector<std::int64_t> times;
    std::vector<int> expected;
    for (int i = 0; i < 33; ++i) {
      times.push_back(i * 100'000 + (i == 0 ? 0 : 1'000));
      expected.push_back(i);
    }
    const auto numbers = numbers_at(MemoryByteSource(bytes), c.container, times);
    ASSERT_TRUE(numbers.has_value()) << name_of(c) << ": " << numbers.error().to_string();
    EXPECT_EQ(*numbers, expected) << name_of(c);
  }
}

TEST(VideoFrames, GivesTheRightFramesWhenItSeeks) {
  for (const Combination& c : kCombinations) {
    const Bytes bytes = video_of(c, 200);
    // Between frames, at a key frame, just before one, twice the same, in one group, at the end.
    const std::vector<std::int64_t> times = {1'950'000, 5'001'000,  8'999'000,  8'999'000,
                                             9'950'000, 15'050'000, 15'250'000, 19'999'000};
    const auto numbers = numbers_at(MemoryByteSource(bytes), c.container, times);
    ASSERT_TRUE(numbers.has_value()) << name_of(c) << ": " << numbers.error().to_string();
    EXPECT_THAT(*numbers, ::testing::ElementsAre(19, 50, 89, 89, 99, 150, 152, 199)) << name_of(c);
  }
}

TEST(VideoFrames, ReadsAFewGroupsOfALongVideo) {
  for (const MediaFormat container :
       {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi}) {
    VideoSpec spec;
    spec.container = container;
    spec.encoder = "mpeg4";
    spec.fps = 1;
    spec.frames = 3600;
    spec.noise = true;
    const Bytes bytes = make_video(spec);
    const MemoryByteSource memory(bytes);
    const CountingByteSource source(memory);
    const PartShape shape = *probe_video(source, container, kManyPixels);
    EXPECT_NEAR(static_cast<double>(shape.duration_us), 3.6e9, 1e3);
    const std::int64_t probing = source.bytes_read();
    int got = 0;
    const auto status = video_frames(
        source, shape, std::vector<std::int64_t>{500'000'000, 2'000'000'000, 3'590'000'000}, 28, 28,
        [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
          constexpr int kExpected[] = {500, 2000, 3590};
          EXPECT_EQ(shown_number(rgb, 28, 28), kExpected[got++]);
          return {};
        });
    ASSERT_TRUE(status.has_value()) << status.error().to_string();
    EXPECT_EQ(got, 3);
    // Its index is read, and the groups of ten frames that hold a wanted one.
    EXPECT_LT(source.bytes_read() - probing, source.size() / 20) << static_cast<int>(container);
  }
}

TEST(VideoFrames, JumpsToTheLastKeyFrameBefore) {
  for (const Combination& c : {Combination{MediaFormat::kMp4, "libx264", 0},
                               {MediaFormat::kMp4, "libx264", 3},
                               {MediaFormat::kMp4, "libx265", 2},
                               {MediaFormat::kMatroska, "libx264", 2}}) {
    const Bytes video = video_of(c, 100);  // 10 a second, a key frame every second
    const MemoryByteSource source(video);
    auto input = FfmpegInput::open(source, c.container);
    auto codec = open_decoder(*input->stream(), kManyPixels);
    const DecodeLimit limit;
    FrameReader reader(*input, *std::move(codec), {&limit, 5'500'000});
    const AvFrame frame = make_av_frame();
    ASSERT_TRUE(*reader.next(frame.get()));
    ASSERT_TRUE(*reader.seek(5'500'000));
    ASSERT_TRUE(*reader.next(frame.get()));
    EXPECT_EQ(reader.time_us() / 1'000'000, 5) << name_of(c);
  }
}

/// Returns the numbers of the frames that a reader returns when it is asked for the last one of a
/// video.
std::vector<int> given_for_the_last(const Bytes& video, FramesGiven given) {
  const MemoryByteSource source(video);
  const auto times = video_frame_times(source, MediaFormat::kMp4);
  auto input = FfmpegInput::open(source, MediaFormat::kMp4);
  auto codec = open_decoder(*input->stream(), kManyPixels);
  const DecodeLimit limit;
  FrameReader reader(*input, *std::move(codec), {&limit, times->us.back()}, times->origin, given);
  reader.need_from(times->us.back());
  const AvFrame frame = make_av_frame();
  FrameScaler scaler(96, 64, 1, FrameColours::kAsTransformers);
  std::vector<int> numbers;
  for (;;) {
    const auto more = reader.next(frame.get());
    EXPECT_TRUE(more);
    if (!more || !*more) return numbers;
    numbers.push_back(shown_number(*scaler.convert(*frame), 96, 64));
  }
}

TEST(VideoFrames, LeavesOutFramesThatNothingRefersTo) {
  const Bytes video = video_of({MediaFormat::kMp4, "libx264", 3}, 20);
  const std::vector<int> every = given_for_the_last(video, FramesGiven::kEvery);
  const std::vector<int> some = given_for_the_last(video, FramesGiven::kSome);
  EXPECT_EQ(every.size(), 20U);
  EXPECT_LT(some.size(), 16U);
  EXPECT_EQ(some.back(), every.back());
  EXPECT_TRUE(std::ranges::includes(every, some));
}

/// Returns the pixels of a grey ramp, whose frame says `matrix` and `range`.
std::vector<std::uint8_t> converted(int matrix, int range) {
  const AvFrame frame = make_av_frame();
  frame->format = AV_PIX_FMT_YUV420P;
  frame->width = 64;
  frame->height = 32;
  EXPECT_EQ(av_frame_get_buffer(frame.get(), 0), 0);
  for (int plane = 0; plane < 3; ++plane) {
    const int rows = plane == 0 ? 32 : 16;
    const std::size_t bytes = static_cast<std::size_t>(rows * frame->linesize[plane]);
    for (std::size_t i = 0; i < bytes; ++i) {
      frame->data[plane][i] = static_cast<std::uint8_t>(i);
    }
  }
  std::memcpy(&frame->colorspace, &matrix, sizeof matrix);
  std::memcpy(&frame->color_range, &range, sizeof range);
  FrameScaler scaler(64, 32, 1, FrameColours::kAsTransformers);
  const auto rgb = scaler.convert(*frame);
  return {rgb->begin(), rgb->end()};
}

TEST(VideoFrames, ColoursThatNoStandardHasCountAsUnsaid) {
  const auto unsaid = converted(AVCOL_SPC_UNSPECIFIED, AVCOL_RANGE_UNSPECIFIED);
  EXPECT_EQ(converted(168, 97), unsaid);
  EXPECT_NE(converted(AVCOL_SPC_BT2020_NCL, AVCOL_RANGE_UNSPECIFIED), unsaid);
  EXPECT_NE(converted(AVCOL_SPC_UNSPECIFIED, AVCOL_RANGE_JPEG), unsaid);
}

TEST(VideoFrames, TurnsThePictureAsDisplayed) {
  constexpr int kDegrees[] = {0, 90, 180, 270};
  for (const int degrees : kDegrees) {
    VideoSpec spec;
    spec.frames = 2;  // the second shows tile 0, top left when stored
    spec.clockwise_degrees = degrees;
    const Bytes bytes = make_video(spec);
    const MemoryByteSource source(bytes);
    const PartShape shape = *probe_video(source, MediaFormat::kMp4, kManyPixels);
    std::vector<std::uint8_t> rgb;
    const std::int32_t w = shape.width;
    const std::int32_t h = shape.height;
    ASSERT_TRUE(video_frames(source, shape, std::vector<std::int64_t>{150'000}, w, h,
                             [&](std::size_t, std::span<const std::uint8_t> pixels) -> Status {
                               rgb.assign(pixels.begin(), pixels.end());
                               return {};
                             })
                    .has_value());
    const bool right = degrees == 90 || degrees == 180;
    const bool low = degrees == 180 || degrees == 270;
    const int tile = (right ? 3 : 0) + (low ? 12 : 0);
    EXPECT_EQ(shown_number(rgb, w, h), 1 << tile) << degrees;
  }
}

TEST(VideoFrames, KeepsColours) {
  VideoSpec spec;
  spec.yuv = {81, 90, 240};  // red in limited-range BT.601
  const Bytes bytes = make_video(spec);
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe_video(source, MediaFormat::kMp4, kManyPixels);
  ASSERT_TRUE(video_frames(source, shape, std::vector<std::int64_t>{0}, 28, 28,
                           [](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
                             EXPECT_NEAR(rgb[0], 255, 4);
                             EXPECT_NEAR(rgb[1], 0, 4);
                             EXPECT_NEAR(rgb[2], 0, 4);
                             return {};
                           })
                  .has_value());
}

TEST(VideoFrames, SaysThatAVideoEndsEarly) {
  VideoSpec spec;
  spec.container = MediaFormat::kAvi;
  spec.encoder = "mpeg4";
  const Bytes bytes = make_video(spec);
  const MemoryByteSource source(bytes);
  PartShape shape = *probe_video(source, MediaFormat::kAvi, kManyPixels);
  const auto status = video_frames(source, shape, std::vector<std::int64_t>{0, 2'700'000}, 28, 28,
                                   [](std::size_t, auto) -> Status { return {}; });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(status.error().message(), HasSubstr("ends early, at 2.00 s"));
}

/// Overwrites bytes of frames in the middle, so that the container stays whole.
TEST(VideoFrames, RefusesAPacketThatDoesNotDecode) {
  for (const Combination& c :
       {kCombinations[0], kCombinations[3], kCombinations[6], kCombinations[11]}) {
    Bytes bytes = video_of(c, 60, true);
    const std::size_t from = bytes.size() * 4 / 10;
    for (std::size_t i = from; i < from + bytes.size() / 5; ++i) bytes[i] = std::byte{0xFF};
    std::vector<std::int64_t> times;
    for (int i = 0; i < 60; ++i) times.push_back(i * 100'000);
    const auto numbers = numbers_at(MemoryByteSource(bytes), c.container, times);
    ASSERT_FALSE(numbers.has_value()) << name_of(c) << ::testing::PrintToString(*numbers);
    EXPECT_EQ(numbers.error().code(), ErrorCode::kCorrupt);
  }
}

/// A live stream has no length to compare with: where a cut leaves whole packets, what is there is
/// measured, and must be right.
TEST(VideoFrames, GivesAnErrorOrRightFramesForACutLiveStream) {
  const Bytes bytes = video_of(kCombinations[7], 40);
  std::int64_t duration_us = 0;
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    if (cut % 17 != 0 && cut + 200 < bytes.size()) continue;
    const auto part = std::span(bytes).first(cut);
    const MemoryByteSource source(part);
    const auto shape = probe_video(source, MediaFormat::kMatroska, kManyPixels);
    if (!shape.has_value()) {
      EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt) << shape.error().to_string();
      continue;
    }
    duration_us = shape->duration_us;
    const std::int64_t last = std::max<std::int64_t>(0, duration_us - 1'000);
    const auto numbers = numbers_at(source, MediaFormat::kMatroska, {0, last / 2, last});
    ASSERT_TRUE(numbers.has_value()) << numbers.error().to_string();
    EXPECT_THAT(*numbers, ::testing::ElementsAre(0, last / 200'000, last / 100'000));
  }
  EXPECT_EQ(duration_us, 4'000'000);
}

TEST(VideoFrames, StopsAtTheSinksError) {
  const Bytes bytes = make_video({});
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe_video(source, MediaFormat::kMp4, kManyPixels);
  int calls = 0;
  const auto status = video_frames(source, shape, std::vector<std::int64_t>{0, 1, 2}, 28, 28,
                                   [&](std::size_t, auto) -> Status {
                                     ++calls;
                                     return Error(ErrorCode::kCancelled, "enough");
                                   });
  EXPECT_EQ(calls, 1);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kCancelled);
}

TEST(VideoFrames, RefusesTimesThatDoNotAscend) {
  const Bytes bytes = make_video({});
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe_video(source, MediaFormat::kMp4, kManyPixels);
  const auto sink = [](std::size_t, auto) -> Status { return {}; };
  const auto status = video_frames(source, shape, std::vector<std::int64_t>{5, 4}, 28, 28, sink);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
}

TEST(VideoFrames, PassesOnTheSourcesError) {
  const Bytes bytes = video_of(kCombinations[6], 100);
  const MemoryByteSource memory(bytes);
  const PartShape shape = *probe_video(memory, MediaFormat::kMatroska, kManyPixels);
  const auto sink = [](std::size_t, auto) -> Status { return {}; };
  const auto status = video_frames(FailingByteSource(memory, memory.size() / 2), shape,
                                   std::vector<std::int64_t>{0, 9'900'000}, 28, 28, sink);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace isocost::test
