#include "decode/video/internal/frame_clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "decode/bytes/ffmpeg_input.h"

extern "C" {
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/frame.h>
}

namespace isocost {
namespace {

struct FreeContext {
  void operator()(AVFormatContext* context) const { avformat_free_context(context); }
};

/// A stream of milliseconds.
class FrameClockTest : public testing::Test {
 protected:
  FrameClockTest()
      : context_(avformat_alloc_context()), stream_(avformat_new_stream(context_.get(), nullptr)) {
    stream_->time_base = {1, 1000};
  }

  static void note(FrameClock& clock, std::int64_t pts, std::int64_t duration = 0,
                   std::int64_t best_effort = AV_NOPTS_VALUE) {
    const AvFrame frame = make_av_frame();
    frame->pts = pts;
    frame->pkt_duration = duration;
    frame->best_effort_timestamp = best_effort;
    clock.note(*frame);
  }

  std::unique_ptr<AVFormatContext, FreeContext> context_;
  AVStream* stream_;
};

TEST_F(FrameClockTest, TheFirstFrameIsTheOrigin) {
  FrameClock clock(*stream_, std::nullopt);
  note(clock, 700);
  EXPECT_EQ(clock.time_us(), 0);
  EXPECT_EQ(clock.last_ticks(), 700);
  EXPECT_EQ(clock.ticks(2'000), 702);
  note(clock, 740);
  EXPECT_EQ(clock.time_us(), 40'000);
}

TEST_F(FrameClockTest, AGivenOriginStays) {
  FrameClock clock(*stream_, 500);
  note(clock, 700);
  EXPECT_EQ(clock.time_us(), 200'000);
  EXPECT_EQ(clock.ticks(0), 500);
}

TEST_F(FrameClockTest, AnIntervalIsOfThePacketOrBetweenFrames) {
  FrameClock clock(*stream_, std::nullopt);
  note(clock, 0, 30);
  EXPECT_EQ(clock.interval_us(), 30'000);
  note(clock, 50);
  EXPECT_EQ(clock.interval_us(), 50'000);
  note(clock, 50);  // A twin tells nothing.
  EXPECT_EQ(clock.interval_us(), 50'000);
}

TEST_F(FrameClockTest, AFrameWithoutATimeFollowsTheLastOne) {
  FrameClock clock(*stream_, std::nullopt);
  note(clock, 100, 40);
  note(clock, AV_NOPTS_VALUE, 0, 130);
  EXPECT_EQ(clock.last_ticks(), 130);
  note(clock, AV_NOPTS_VALUE);
  EXPECT_EQ(clock.last_ticks(), 160);
  EXPECT_EQ(clock.time_us(), 60'000);
}

}  // namespace
}  // namespace isocost
