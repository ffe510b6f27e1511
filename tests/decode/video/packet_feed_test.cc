#include "decode/video/internal/packet_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/shape/media_formats.h"
#include "tests/decode/video/golden_video.h"

extern "C" {
#include <libavcodec/packet.h>
}

namespace isocost::test {
namespace {

using State = PacketFeed::State;

/// A feed over a file of golden_videos.
struct Video {
  explicit Video(const std::string& name)
      : bytes(golden_video(name)),
        source(bytes),
        input(FfmpegInput::open(source, MediaFormat::kMp4).value()),
        feed(input) {}

  std::vector<std::byte> bytes;
  MemoryByteSource source;
  FfmpegInput input;
  PacketFeed feed;
};

/// Returns when the remaining packets are shown, in the order in which they are stored.
std::vector<std::int64_t> times_of_rest(PacketFeed& feed) {
  std::vector<std::int64_t> times;
  for (;;) {
    const auto packet = feed.take();
    EXPECT_TRUE(packet);
    if (!packet || *packet == nullptr) return times;
    times.push_back((*packet)->pts);
  }
}

/// When the last key frame is shown.
std::int64_t last_key(const std::string& name) {
  Video video(name);
  std::int64_t key = -1;
  for (;;) {
    const auto packet = video.feed.take();
    EXPECT_TRUE(packet);
    if (!packet || *packet == nullptr) return key;
    if (((*packet)->flags & AV_PKT_FLAG_KEY) != 0) key = (*packet)->pts;
  }
}

TEST(PacketFeed, FirstBecomesFollowing) {
  Video video("nine.mp4");
  EXPECT_EQ(video.feed.state(), State::kFirst);
  const auto packet = video.feed.take();
  ASSERT_TRUE(packet);
  ASSERT_NE(*packet, nullptr);
  EXPECT_EQ(video.feed.state(), State::kFollowing);
  EXPECT_EQ(video.feed.held(), nullptr);
}

TEST(PacketFeed, FollowingBecomesEnded) {
  Video video("nine.mp4");
  EXPECT_EQ(times_of_rest(video.feed).size(), 9U);
  EXPECT_EQ(video.feed.state(), State::kEnded);
  EXPECT_EQ(times_of_rest(video.feed).size(), 0U);
}

TEST(PacketFeed, FollowingBecomesEndedBehindACount) {
  Video video("nine.mp4");
  video.feed.end_after(4);
  EXPECT_EQ(times_of_rest(video.feed).size(), 4U);
  EXPECT_EQ(video.feed.state(), State::kEnded);
}

TEST(PacketFeed, FollowingBecomesHeldAtAJump) {
  Video video("open_b.mp4");
  ASSERT_TRUE(video.feed.take());
  const std::int64_t key = last_key("open_b.mp4");
  ASSERT_TRUE(video.feed.jump(key));
  EXPECT_EQ(video.feed.state(), State::kHeld);
  ASSERT_NE(video.feed.held(), nullptr);
  EXPECT_EQ(video.feed.held()->pts, key);
}

TEST(PacketFeed, HeldBecomesFollowing) {
  Video video("open_b.mp4");
  ASSERT_TRUE(video.feed.take());
  const std::int64_t key = last_key("open_b.mp4");
  ASSERT_TRUE(video.feed.jump(key));
  EXPECT_EQ((*video.feed.take())->pts, key);
  EXPECT_EQ(video.feed.state(), State::kFollowing);
  EXPECT_EQ(video.feed.held(), nullptr);
  EXPECT_NE((*video.feed.take())->pts, key);
}

TEST(PacketFeed, EndedBecomesHeldAtAJump) {
  Video video("open_b.mp4");
  ASSERT_FALSE(times_of_rest(video.feed).empty());
  ASSERT_TRUE(video.feed.jump(0));
  EXPECT_EQ(video.feed.state(), State::kHeld);
}

TEST(PacketFeed, LeavesOutLeadingPicturesAfterAJump) {
  Video video("open_b.mp4");
  const std::vector<std::int64_t> all = times_of_rest(video.feed);
  const std::int64_t key = last_key("open_b.mp4");
  ASSERT_TRUE(video.feed.jump(key));
  const std::vector<std::int64_t> rest = times_of_rest(video.feed);
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(std::ranges::count_if(rest, [&](std::int64_t time) { return time < key; }), 0);
  const auto stored = std::ranges::find(all, key);
  EXPECT_GT(std::count_if(stored, all.end(), [&](std::int64_t time) { return time < key; }), 0);
}

TEST(PacketFeed, LeavesOutLeadingPicturesAtTheStart) {
  Video video("cut_whole.mp4");
  const auto first = video.feed.take();
  ASSERT_TRUE(first);
  const std::int64_t key = (*first)->pts;
  const std::vector<std::int64_t> rest = times_of_rest(video.feed);
  EXPECT_EQ(std::ranges::count_if(rest, [&](std::int64_t time) { return time < key; }), 0);
}

TEST(PacketFeed, LeavesOutWhatNothingRefersToBeforeATime) {
  Video every("cfr30_b.mp4");
  const std::vector<std::int64_t> all = times_of_rest(every.feed);
  Video some("cfr30_b.mp4");
  some.feed.need_from(all.back());
  const std::vector<std::int64_t> fewer = times_of_rest(some.feed);
  EXPECT_LT(fewer.size(), all.size());
  EXPECT_EQ(fewer.front(), all.front());
  EXPECT_EQ(fewer.back(), all.back());
}

}  // namespace
}  // namespace isocost::test
