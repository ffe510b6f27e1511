#include "decode/video/internal/frame_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_codecs.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"
#include "decode/video/internal/jump_progress.h"
#include "tests/decode/video/golden_video.h"

namespace isocost::test {
namespace {

using State = JumpProgress::State;

constexpr std::int64_t kManyPixels = 178'956'970;

/// A reader over a file of golden_videos, at its first frame.
class Video {
 public:
  explicit Video(const std::string& name, FramesGiven given = FramesGiven::kEvery)
      : bytes_(golden_video(name)),
        source_(bytes_),
        input_(FfmpegInput::open(source_, MediaFormat::kMp4).value()),
        reader_(input_, open_decoder(*input_.stream(), kManyPixels).value(), {&limit_, 10'000'000},
                std::nullopt, given),
        frame_(make_av_frame()) {
    EXPECT_TRUE(next().value());
  }

  FrameReader& reader() { return reader_; }
  State state() const { return reader_.progress().state(); }

  Result<bool> next() { return reader_.next(frame_.get()); }

  /// Returns when the remaining frames start.
  std::vector<std::int64_t> rest_us() {
    std::vector<std::int64_t> times;
    for (;;) {
      const Result<bool> more = next();
      EXPECT_TRUE(more) << more.error().to_string();
      if (!more || !*more) return times;
      times.push_back(reader_.time_us());
    }
  }

 private:
  std::vector<std::byte> bytes_;
  MemoryByteSource source_;
  DecodeLimit limit_;
  FfmpegInput input_;
  FrameReader reader_;
  AvFrame frame_;
};

bool ends_with(const std::vector<std::int64_t>& all, const std::vector<std::int64_t>& rest) {
  return !rest.empty() && rest.size() <= all.size() &&
         std::equal(rest.rbegin(), rest.rend(), all.rbegin());
}

TEST(FrameReader, ReadsFromTheStartToTheEnd) {
  Video video("nine.mp4");
  EXPECT_EQ(video.state(), State::kStarted);
  EXPECT_EQ(video.rest_us().size(), 8U);
  EXPECT_TRUE(video.rest_us().empty());
  EXPECT_EQ(video.state(), State::kStarted);
}

TEST(FrameReader, StaysWhereNoKeyFrameLiesBeyond) {
  Video video("nine.mp4");
  EXPECT_EQ(video.rest_us().size(), 8U);
  EXPECT_FALSE(video.reader().seek(800'000).value());
  EXPECT_EQ(video.state(), State::kStarted);
}

TEST(FrameReader, JumpsToAKeyFrame) {
  const std::vector<std::int64_t> all = Video("fast.mp4").rest_us();
  Video video("fast.mp4");
  ASSERT_TRUE(video.reader().seek(800'000).value());
  EXPECT_EQ(video.state(), State::kJumped);
  const std::vector<std::int64_t> rest = video.rest_us();
  EXPECT_TRUE(ends_with(all, rest));
  EXPECT_LT(rest.size(), all.size());
  EXPECT_LE(rest.front(), 800'000);
  EXPECT_EQ(video.state(), State::kJumped);
}

TEST(FrameReader, GoesBackForMissingReferences) {
  const std::vector<std::int64_t> all = Video("open.mp4").rest_us();
  Video video("open.mp4");
  ASSERT_TRUE(video.reader().seek(520'000).value());
  EXPECT_EQ(video.state(), State::kJumped);
  const std::vector<std::int64_t> rest = video.rest_us();
  EXPECT_EQ(video.state(), State::kWentBack);
  EXPECT_TRUE(ends_with(all, rest));
  EXPECT_LE(rest.front(), 520'000);
}

TEST(FrameReader, StaysAtTheJumpWhereItMayLeaveFramesOut) {
  Video video("open.mp4", FramesGiven::kSome);
  ASSERT_TRUE(video.reader().seek(520'000).value());
  while (video.next().value_or(false)) continue;
  EXPECT_EQ(video.state(), State::kJumped);
}

}  // namespace
}  // namespace isocost::test
