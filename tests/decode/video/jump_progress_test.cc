#include "decode/video/internal/jump_progress.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "decode/bytes/ffmpeg_input.h"

extern "C" {
#include <libavcodec/packet.h>
}

namespace isocost {
namespace {

using State = JumpProgress::State;

/// A jump to the key frame 90 that is shown at 100.
JumpProgress jumped() {
  JumpProgress progress;
  progress.jump(90, 100);
  return progress;
}

void send(JumpProgress& progress, std::int64_t pts, int flags = 0) {
  const AvPacket packet = make_av_packet();
  packet->pts = pts;
  packet->flags = flags;
  progress.note_sent(*packet);
}

TEST(JumpProgress, CountsNothingFromTheStart) {
  JumpProgress progress;
  EXPECT_EQ(progress.state(), State::kStarted);
  send(progress, 0);
  EXPECT_FALSE(progress.lacks_frames());
  EXPECT_FALSE(progress.retreat());
  EXPECT_EQ(progress.use_of(INT64_MIN), FrameUse::kNew);
}

TEST(JumpProgress, StartedBecomesJumpedAtAKeyFrame) {
  JumpProgress progress;
  progress.note_given();
  progress.jump(90, 100);
  EXPECT_EQ(progress.state(), State::kJumped);
  ASSERT_TRUE(progress.retreat());
  EXPECT_EQ(progress.retreat()->target, 90);
  EXPECT_EQ(progress.retreat()->shown_at, 100);
  EXPECT_EQ(progress.retreat()->given, 0);
  EXPECT_EQ(progress.use_of(99), FrameUse::kNew);
}

TEST(JumpProgress, JumpedBecomesStartedWhereNoTimeIsTold) {
  JumpProgress progress = jumped();
  progress.jump(200, std::nullopt);
  EXPECT_EQ(progress.state(), State::kStarted);
  EXPECT_FALSE(progress.retreat());
}

TEST(JumpProgress, CountsWhatIsShownSinceAJump) {
  JumpProgress progress = jumped();
  send(progress, 99);
  send(progress, 100, AV_PKT_FLAG_DISCARD);
  EXPECT_FALSE(progress.lacks_frames());
  send(progress, 100);
  EXPECT_TRUE(progress.lacks_frames());
  progress.note_given();
  EXPECT_FALSE(progress.lacks_frames());
}

TEST(JumpProgress, JumpedBecomesWentBackAndRepeatsFrames) {
  JumpProgress progress = jumped();
  send(progress, 100);
  progress.note_given();
  progress.go_back(80);
  EXPECT_EQ(progress.state(), State::kWentBack);
  EXPECT_EQ(progress.use_of(99), FrameUse::kWarmUp);
  EXPECT_EQ(progress.use_of(100), FrameUse::kRepeat);
  progress.note_repeated();
  EXPECT_EQ(progress.use_of(101), FrameUse::kNew);
  EXPECT_FALSE(progress.lacks_frames());
  send(progress, 100);
  send(progress, 101);
  EXPECT_TRUE(progress.lacks_frames());
}

TEST(JumpProgress, WentBackGoesBackFourTimes) {
  JumpProgress progress = jumped();
  for (int times = 0; times < 4; ++times) {
    ASSERT_TRUE(progress.retreat());
    EXPECT_EQ(progress.retreat()->times_back, times);
    progress.go_back(80 - 10 * times);
    EXPECT_EQ(progress.state(), State::kWentBack);
  }
  EXPECT_FALSE(progress.retreat());
}

TEST(JumpProgress, WentBackBecomesJumpedAtTheNextJump) {
  JumpProgress progress = jumped();
  progress.note_given();
  progress.go_back(80);
  progress.jump(190, 200);
  EXPECT_EQ(progress.state(), State::kJumped);
  EXPECT_EQ(progress.use_of(150), FrameUse::kNew);
  EXPECT_EQ(progress.retreat()->times_back, 0);
}

}  // namespace
}  // namespace isocost
