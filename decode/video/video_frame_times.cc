#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/media_container.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"
#include "decode/video/internal/first_frames.h"
#include "decode/video/internal/shown_packets.h"
#include "decode/video/video.h"

extern "C" {
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/mathematics.h>
#include <libavutil/rational.h>
}

namespace isocost {
namespace {

/// Collects the times of the packets that are shown, in the order in which they are stored.
/// Single-thread; the stream must outlive it.
class PacketTimes {
 public:
  explicit PacketTimes(const AVStream& stream) : shown_(stream), beginning_(stream) {}

  /// Takes the next packet. Returns whether only decoding tells which frames come first.
  bool add(const AVPacket& packet) {
    ++packets_;
    const bool is_shown = shown_.is_shown(packet);
    result_.is_late |= !is_shown && !shown_.has_begun();
    if (is_shown && packets_ > decoded_) add_shown(packet);
    const bool is_in_doubt = beginning_.note(packet) == BeginningInDoubt::Verdict::kInDoubt;
    return is_in_doubt && decoded_ == 0;
  }

  /// Puts what a decoder shows of the first packets in the place of what they tell.
  void put_first(const FirstFrames& frames) {
    decoded_ = FirstFrames::kPackets;
    early_ = 0;
    result_.us = frames.ticks;
    result_.all_told = frames.all_told;
  }

  /// Returns the times, ascending, in ticks of the stream.
  VideoFrameTimes take() && {
    result_.us.insert(result_.us.end(), static_cast<std::size_t>(early_), 0);
    std::ranges::sort(result_.us);
    return std::move(result_);
  }

 private:
  void add_shown(const AVPacket& packet) {
    std::vector<std::int64_t>& times = result_.us;
    std::int64_t at = packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
    result_.all_told &= packet.pts != AV_NOPTS_VALUE;
    if (at == AV_NOPTS_VALUE && times.empty()) {
      ++early_;
      return;
    }
    // A stream of MPEG-PS tells the time of some frames; others are counted with the one before.
    if (at == AV_NOPTS_VALUE) at = times.back();
    times.insert(times.end(), static_cast<std::size_t>(std::exchange(early_, 0)) + 1, at);
  }

  ShownPackets shown_;
  BeginningInDoubt beginning_;
  VideoFrameTimes result_;    ///< Its times are in ticks.
  std::int64_t packets_ = 0;  ///< Packets that came.
  std::int64_t decoded_ = 0;  ///< The first of them, of which a decoder has told the frames.
  std::int64_t early_ = 0;    ///< Frames before the first that tells its time.
};

/// Converts ticks to microseconds from the first frame.
Status count_from_first(VideoFrameTimes& times, AVRational time_base) {
  constexpr std::int64_t kMostTicks = std::int64_t{1} << 61;
  if (times.us.empty()) return corrupt("its video has no frames");
  const std::int64_t first = times.origin = times.us.front();
  if (first < -kMostTicks || times.us.back() > kMostTicks) {
    return corrupt("its video has impossible times");
  }
  for (std::int64_t& time : times.us) {
    time = av_rescale_q_rnd(time - first, time_base, AV_TIME_BASE_Q, AV_ROUND_DOWN);
  }
  return {};
}

}  // namespace

Result<VideoFrameTimes> video_frame_times(const ByteSource& source, MediaFormat format,
                                          const DecodeLimit& limit) {
  ISOCOST_TRY(check_media_container(source, format));
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format));
  const AvPacket packet = make_av_packet();
  PacketTimes collected(*input.stream());
  const auto begun = limit.used();
  for (;;) {
    ISOCOST_TRY(limit.check(begun, 0));
    ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
    if (!more) break;
    if (collected.add(*packet)) {
      ISOCOST_ASSIGN(const FirstFrames first, decode_first_frames(source, format, limit));
      collected.put_first(first);
    }
  }
  VideoFrameTimes times = std::move(collected).take();
  ISOCOST_TRY(count_from_first(times, input.stream()->time_base));
  return times;
}

}  // namespace isocost
