#include "decode/video/internal/frame_reader.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/internal/jump_progress.h"
#include "tests/decode/video/golden_video.h"

namespace isocost::test {
namespace {

using State = JumpProgress::State;

constexpr std::int64_t kManyPixels = 178'956'970;

/// A reader over a file of golden_videos, at its first frame.
class Video {
 public:
  explicit Video(const std::string& name)
      : bytes_(golden_video(name)),
        source_(bytes_),
        input_(FfmpegInput::open(source_, MediaFormat::kMp4).value()),
        reader_(input_, open_video_decoder(*input_.video(), kManyPixels).value(),
                {&limit_, 10'000'000}),
        frame_(make_av_frame()) {
    EXPECT_TRUE(reader_.next(frame_.get()).value());
  }

  FrameReader& reader() { return reader_; }
  State state() const { return reader_.progress().state(); }

  /// Returns when the remaining frames start.
  std::vector<std::int64_t> rest_us() {
    std::vector<std::int64_t> times;
    for (;;) {
      const Result<bool> more = reader_.next(frame_.get());
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

TEST(FrameReader, ReadsFromTheStartToTheEnd) {
  Video video("nine.mp4");
  EXPECT_EQ(video.state(), State::kStarted);
  EXPECT_EQ(video.rest_us().size(), 8U);
  EXPECT_TRUE(video.rest_us().empty());
  EXPECT_EQ(video.state(), State::kStarted);
}

}  // namespace
}  // namespace isocost::test
