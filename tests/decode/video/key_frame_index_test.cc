#include "decode/video/internal/key_frame_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "base/byte_source.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/shape/media_formats.h"
#include "tests/support/av_media.h"

extern "C" {
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
}

namespace isocost::test {
namespace {

using Extent = KeyFrameIndex::Extent;

/// 30 frames, 10 a second, with a key frame every second.
class KeyFrameIndexTest : public testing::Test {
 protected:
  FfmpegInput open(MediaFormat container) {
    VideoSpec spec;
    spec.container = container;
    spec.frames = 30;
    bytes_ = make_video(spec);
    source_.emplace(bytes_);
    return FfmpegInput::open(*source_, container).value();
  }

  Bytes bytes_;
  std::optional<MemoryByteSource> source_;
};

AvPacket packet_of(std::int64_t pts, std::int64_t dts) {
  AvPacket packet = make_av_packet();
  packet->pts = pts;
  packet->dts = dts;
  return packet;
}

TEST_F(KeyFrameIndexTest, FindsKeyFrames) {
  const FfmpegInput input = open(MediaFormat::kMp4);
  const KeyFrameIndex index(input);
  const std::int64_t second = input.stream()->time_base.den / input.stream()->time_base.num;
  EXPECT_EQ(index.at_or_before(-1), nullptr);
  ASSERT_NE(index.at_or_before(2 * second - 1), nullptr);
  EXPECT_EQ(index.at_or_before(2 * second - 1)->timestamp, second);
  EXPECT_EQ(index.before(2 * second, 1), second);
  EXPECT_EQ(index.before(2 * second, 2), 0);
  EXPECT_EQ(index.before(2 * second, 8), 0);
  EXPECT_TRUE(index.has_earlier(second));
  EXPECT_FALSE(index.has_earlier(0));
}

TEST_F(KeyFrameIndexTest, TakesTheReorderingFromTheFirstPacket) {
  const FfmpegInput input = open(MediaFormat::kMp4);
  KeyFrameIndex index(input);
  index.note_first(*packet_of(30, AV_NOPTS_VALUE));
  EXPECT_EQ(index.reorder(), 0);
  index.note_first(*packet_of(30, 10));
  EXPECT_EQ(index.reorder(), 20);
  index.note_first(*packet_of(10, 30));
  EXPECT_EQ(index.reorder(), 0);
}

TEST_F(KeyFrameIndexTest, OfMp4IsWhole) {
  const FfmpegInput input = open(MediaFormat::kMp4);
  const KeyFrameIndex index(input);
  EXPECT_EQ(index.extent(), Extent::kWhole);
  EXPECT_FALSE(index.may_grow_behind(nullptr));
}

TEST_F(KeyFrameIndexTest, OfMatroskaGrowsAndBecomesWhole) {
  const FfmpegInput input = open(MediaFormat::kMatroska);
  KeyFrameIndex index(input);
  EXPECT_EQ(index.extent(), Extent::kGrows);
  index.note_first(*packet_of(30, 10));
  EXPECT_EQ(index.reorder(), 0);
  EXPECT_TRUE(index.may_grow_behind(nullptr));
  index.note_whole();
  EXPECT_EQ(index.extent(), Extent::kWhole);
  EXPECT_FALSE(index.may_grow_behind(nullptr));
}

}  // namespace
}  // namespace isocost::test
