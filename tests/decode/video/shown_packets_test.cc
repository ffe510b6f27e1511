#include "decode/video/internal/shown_packets.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode/bytes/ffmpeg_input.h"

extern "C" {
#include <libavcodec/codec_id.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/mem.h>
}

namespace isocost {
namespace {

struct FreeContext {
  void operator()(AVFormatContext* context) const { avformat_free_context(context); }
};

using Units = std::vector<int>;  // types of one packet

constexpr int kTrailing = 1;
constexpr int kRadl = 7;
constexpr int kRasl = 8;
constexpr int kBrokenLink = 16;
constexpr int kIdr = 19;
constexpr int kCra = 21;
constexpr int kParameters = 32;
constexpr int kEnd = 36;

class ShownPacketsTest : public testing::TestWithParam<int> {
 protected:
  /// Units with lengths of GetParam() bytes, or start codes.
  ShownPacketsTest()
      : context_(avformat_alloc_context()), stream_(avformat_new_stream(context_.get(), nullptr)) {
    AVCodecParameters& codec = *stream_->codecpar;
    codec.codec_id = AV_CODEC_ID_HEVC;
    if (GetParam() == 0) return;
    codec.extradata_size = 23;
    codec.extradata = static_cast<std::uint8_t*>(av_mallocz(23 + AV_INPUT_BUFFER_PADDING_SIZE));
    codec.extradata[0] = 1;
    codec.extradata[21] = static_cast<std::uint8_t>(GetParam() - 1);
  }

  /// `shift`: of the type in a unit's first byte; 1 for HEVC, 0 for H.264.
  static std::vector<std::uint8_t> packed(const Units& units, int shift = 1) {
    constexpr std::size_t kLength = 5;
    std::vector<std::uint8_t> bytes;
    for (const int type : units) {
      const std::vector<std::uint8_t> code = {0, 0, 1};
      std::vector<std::uint8_t> length(static_cast<std::size_t>(GetParam()), 0);
      if (!length.empty()) length.back() = kLength;
      bytes.insert(bytes.end(), length.begin(), length.end());
      if (length.empty()) bytes.insert(bytes.end(), code.begin(), code.end());
      bytes.push_back(static_cast<std::uint8_t>(type << shift));
      bytes.insert(bytes.end(), kLength - 1, 0x55);
    }
    return bytes;
  }

  /// A letter for each packet: "+" if it is shown.
  std::string shown(const std::vector<Units>& packets) {
    ShownPackets of(*stream_);
    std::string letters;
    for (const Units& units : packets) {
      std::vector<std::uint8_t> bytes = packed(units);
      const AvPacket packet = make_av_packet();
      packet->data = bytes.data();
      packet->size = static_cast<int>(bytes.size());
      letters += of.is_shown(*packet) ? '+' : '-';
      in_leading_ = of.in_leading();
    }
    return letters;
  }

  std::unique_ptr<AVFormatContext, FreeContext> context_;
  AVStream* stream_;
  bool in_leading_ = true;
};

TEST_P(ShownPacketsTest, LeadingPicturesOfTheStartAreNotShown) {
  EXPECT_EQ(shown({{kParameters, kCra}, {kRasl}, {kRasl, kRasl}}), "+--");
  EXPECT_TRUE(in_leading_);
  EXPECT_EQ(shown({{kParameters, kCra}, {kRasl}, {kRadl}, {kTrailing}, {kCra}, {kRasl}}), "+-++++");
  EXPECT_FALSE(in_leading_);
}

TEST_P(ShownPacketsTest, AnIdrHasNone) {
  EXPECT_EQ(shown({{kIdr}}), "+");
  EXPECT_FALSE(in_leading_);
  EXPECT_EQ(shown({{kIdr}, {kTrailing}, {kCra}, {kRasl}}), "++++");
}

TEST_P(ShownPacketsTest, ABrokenLinkIsAStart) {
  EXPECT_EQ(shown({{kCra}, {kTrailing}, {kBrokenLink}, {kRasl}, {kTrailing}}), "+++-+");
}

TEST_P(ShownPacketsTest, AnEndOfSequenceMakesTheNextKeyFrameAStart) {
  EXPECT_EQ(shown({{kIdr}, {kTrailing, kEnd}, {kCra}, {kRasl}}), "+++-");
  EXPECT_EQ(shown({{kIdr}, {kTrailing}, {kEnd, kCra}, {kRasl}}), "+++-");
}

TEST_P(ShownPacketsTest, H264LosesWhatIsShownBeforeTheFirstKeyFrame) {
  stream_->codecpar->codec_id = AV_CODEC_ID_H264;
  if (GetParam() > 0) stream_->codecpar->extradata[4] = stream_->codecpar->extradata[21];
  ShownPackets of(*stream_);
  std::string letters;
  for (const std::int64_t time : {40, 30, 20, 80, 60, 35}) {
    std::vector<std::uint8_t> bytes = packed({1}, 0);
    const AvPacket packet = make_av_packet();
    packet->data = bytes.data();
    packet->size = static_cast<int>(bytes.size());
    packet->pts = time;
    if (time == 40) packet->flags = AV_PKT_FLAG_KEY;
    letters += of.is_shown(*packet) ? '+' : '-';
    EXPECT_EQ(of.in_leading(), letters.size() < 4);
  }
  EXPECT_EQ(letters, "+--+++");  // a time that is wrong later on hides nothing
}

TEST_P(ShownPacketsTest, NothingIsShownBeforeTheFirstKeyFrame) {
  EXPECT_EQ(shown({{kTrailing}, {kTrailing}, {kCra}, {kRasl}, {kTrailing}}), "--+-+");
  for (const AVCodecID codec : {AV_CODEC_ID_H264, AV_CODEC_ID_VP8, AV_CODEC_ID_VP9}) {
    stream_->codecpar->codec_id = codec;
    ShownPackets of(*stream_);
    std::string letters;
    for (const std::int64_t time : {10, 20, 40, 60}) {
      std::vector<std::uint8_t> large(2000);  // what holds no picture is small
      large[0] = 0x10;
      const AvPacket packet = make_av_packet();
      packet->data = large.data();
      packet->size = static_cast<int>(large.size());
      packet->pts = time;
      if (time == 40) packet->flags = AV_PKT_FLAG_KEY;
      letters += of.is_shown(*packet) ? '+' : '-';
    }
    EXPECT_EQ(letters, "--++") << codec;
  }
}

TEST_P(ShownPacketsTest, Mpeg2LosesLeadingPicturesUnlessTheirGroupIsClosed) {
  stream_->codecpar->codec_id = AV_CODEC_ID_MPEG2VIDEO;
  for (const bool is_closed : {false, true}) {
    ShownPackets of(*stream_);
    std::string letters;
    for (const std::int64_t time : {40, 20, 80, 60}) {
      std::vector<std::uint8_t> group = {0, 0, 1, 0xB8, 0, 8, 0, 0, 0, 0, 1, 0, 0, 8};
      if (is_closed) group[7] = 0x40;
      const AvPacket packet = make_av_packet();
      packet->data = group.data();
      packet->size = static_cast<int>(group.size());
      packet->pts = time;
      if (time == 40) packet->flags = AV_PKT_FLAG_KEY;
      letters += of.is_shown(*packet) ? '+' : '-';
    }
    EXPECT_EQ(letters, is_closed ? "++++" : "+-++");
    EXPECT_FALSE(of.in_leading());
  }
}

TEST_P(ShownPacketsTest, H264BeginsInAnOpenGroupWithoutAnIdr) {
  stream_->codecpar->codec_id = AV_CODEC_ID_H264;
  if (GetParam() > 0) stream_->codecpar->extradata[4] = stream_->codecpar->extradata[21];
  const auto begins = [&](const Units& units) {
    std::vector<std::uint8_t> bytes = packed(units, 0);
    const AvPacket packet = make_av_packet();
    packet->data = bytes.data();
    packet->size = static_cast<int>(bytes.size());
    return begins_in_open_group(*stream_, *packet);
  };
  EXPECT_FALSE(begins({7, 8, 5}));
  EXPECT_TRUE(begins({7, 8, 6, 1}));
  EXPECT_FALSE(begins({7, 8}));
}

TEST_P(ShownPacketsTest, H264SaysWhichPicturesAreNeverReferredTo) {
  constexpr int kReferred = 0x20;
  constexpr int kEnhancement = 6;
  if (GetParam() > 0) stream_->codecpar->extradata[4] = stream_->codecpar->extradata[21];
  const auto never = [&](const Units& units) {
    std::vector<std::uint8_t> bytes = packed(units, 0);
    const AvPacket packet = make_av_packet();
    packet->data = bytes.data();
    packet->size = static_cast<int>(bytes.size());
    return is_never_referred_to(*stream_, *packet);
  };
  EXPECT_FALSE(never({1}));  // HEVC
  stream_->codecpar->codec_id = AV_CODEC_ID_H264;
  EXPECT_TRUE(never({1}));
  EXPECT_TRUE(never({kEnhancement, 1, 1}));
  EXPECT_FALSE(never({1, 1 | kReferred}));
  EXPECT_FALSE(never({7 | kReferred, 1}));  // parameters that later pictures need
  EXPECT_FALSE(never({5}));
  EXPECT_FALSE(never({kEnhancement}));
  EXPECT_FALSE(never({0, 1}));
  EXPECT_FALSE(never({}));
}

TEST_P(ShownPacketsTest, CutPacketsAreReadToTheirEnd) {
  ShownPackets of(*stream_);
  for (std::uint8_t first : {0, 1, 255}) {
    std::vector<std::uint8_t> bytes = {first, 0, 0, 1};
    for (int size = 0; size <= 4; ++size) {
      const AvPacket packet = make_av_packet();
      packet->data = bytes.data();
      packet->size = size;
      packet->flags = AV_PKT_FLAG_KEY;
      EXPECT_EQ(of.is_shown(*packet), holds_picture(*stream_, *packet));
    }
  }
}

TEST_P(ShownPacketsTest, APacketWithoutAPictureIsNotShown) {
  EXPECT_EQ(shown({{kIdr}, {kTrailing}, {kEnd}}), "++-");
  const auto holds = [&](std::vector<std::uint8_t> bytes) {
    const AvPacket packet = make_av_packet();
    packet->data = bytes.data();
    packet->size = static_cast<int>(bytes.size());
    return holds_picture(*stream_, *packet);
  };
  stream_->codecpar->codec_id = AV_CODEC_ID_H264;
  if (GetParam() > 0) stream_->codecpar->extradata[4] = stream_->codecpar->extradata[21];
  EXPECT_TRUE(holds(packed({9, 7, 8, 5}, 0)));
  EXPECT_TRUE(holds(packed({9, 1}, 0)));
  EXPECT_FALSE(holds(packed({9, 10}, 0)));
  EXPECT_FALSE(holds({}));
  stream_->codecpar->codec_id = AV_CODEC_ID_MPEG2VIDEO;
  EXPECT_TRUE(holds({0, 0, 1, 0, 0, 8, 0}));
  EXPECT_FALSE(holds({0, 0, 1, 0xB7}));
  stream_->codecpar->codec_id = AV_CODEC_ID_MPEG4;
  EXPECT_TRUE(holds({0, 0, 1, 0xB6, 0x10}));
  EXPECT_FALSE(holds({0, 0, 1, 0xB1}));
}

INSTANTIATE_TEST_SUITE_P(Lengths, ShownPacketsTest, testing::Values(0, 1, 2, 4));

}  // namespace
}  // namespace isocost
