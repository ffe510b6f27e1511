#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/internal/ffmpeg_input.h"
#include "decode/internal/frame_reader.h"
#include "decode/internal/frame_scaler.h"
#include "decode/internal/media_bytes.h"
#include "decode/internal/video.h"
#include "decode/internal/video_container.h"
#include "decode/sample_shape.h"

extern "C" {
#include <libavcodec/codec_id.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/frame.h>
#include <libavutil/mathematics.h>
#include <libavutil/rational.h>
}

namespace isocost {
namespace {

constexpr std::int64_t kEarlyToleranceUs = 500'000;

/// The frame on screen at a time, for times that only grow. One frame is decoded ahead: only the
/// next one tells how long a frame stays.
class FrameFinder {
 public:
  explicit FrameFinder(FrameReader& reader)
      : reader_(reader), current_(make_av_frame()), next_(make_av_frame()) {}

  Status start() {
    ISOCOST_TRY(fetch());
    if (!has_next_) return corrupt("its video has no frames");
    first_ = true;
    return {};
  }

  /// True where the frame differs from the one found before.
  Result<bool> find(std::int64_t time_us) {
    bool changed = std::exchange(first_, false);
    if (!ended_ && next_us_ < time_us) ISOCOST_TRY(try_seek(time_us));
    while (has_next_ && (next_us_ <= time_us || !has_current_)) {
      std::swap(current_, next_);
      current_us_ = next_us_;
      has_current_ = changed = true;
      ISOCOST_TRY(fetch());
    }
    if (!has_current_ || (ended_ && time_us > end_us_ + kEarlyToleranceUs)) return ends_early();
    return changed;
  }

  const AVFrame& frame() const { return *current_; }

 private:
  Status fetch() {
    ISOCOST_ASSIGN(has_next_, reader_.next(next_.get()));
    if (has_next_) {
      next_us_ = reader_.time_us();
    } else {
      ended_ = true;
      end_us_ = reader_.time_us() + reader_.interval_us();
    }
    return {};
  }

  Status try_seek(std::int64_t time_us) {
    ISOCOST_ASSIGN(const bool jumped, reader_.seek(time_us));
    if (!jumped) return {};
    has_current_ = false;
    return fetch();
  }

  Error ends_early() const {
    char text[64];
    std::snprintf(text, sizeof text, "its video ends early, at %.2f s",
                  static_cast<double>(end_us_) / 1e6);
    return corrupt(text);
  }

  FrameReader& reader_;
  AvFrame current_;
  AvFrame next_;
  bool has_current_ = false;
  bool has_next_ = false;
  bool first_ = false;
  bool ended_ = false;
  std::int64_t current_us_ = 0;
  std::int64_t next_us_ = 0;
  std::int64_t end_us_ = 0;
};

/// The frame with room for the blocks and edges to which decoders round it up.
std::int64_t padded_pixels(const PartShape& shape, std::int64_t room) {
  return (shape.width + room) * (shape.height + room);
}

/// What a decoder is allowed: its smallest scratch buffer, about 280 lines, counts as a frame.
constexpr std::int64_t kDecoderRoom = 320;

Status check_arguments(const PartShape& shape, std::span<const std::int64_t> times_us,
                       std::int32_t target_width, std::int32_t target_height) {
  constexpr std::int32_t kMaxSide = 1 << 15;
  const bool sides = target_width > 0 && target_height > 0 && target_width <= kMaxSide &&
                     target_height <= kMaxSide && shape.width > 0 && shape.height > 0;
  const bool ascending = std::is_sorted(times_us.begin(), times_us.end());
  if (sides && ascending && (times_us.empty() || times_us.front() >= 0)) return {};
  return Error(ErrorCode::kInvalidArgument,
               "video_frames: sizes must be positive and times ascend");
}

/// video_frames, with a scaler for the target size.
Status scaled_frames(const ByteSource& source, const PartShape& shape,
                     std::span<const std::int64_t> times_us, FrameScaler& scaler,
                     const VideoFrameSink& sink, const DecodeLimit& limit) {
  if (times_us.empty()) return {};
  ISOCOST_TRY(check_video_container(source, shape.format));
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, shape.format));
  ISOCOST_ASSIGN(AvCodec codec,
                 open_video_decoder(*input.video(), padded_pixels(shape, kDecoderRoom)));
  FrameReader reader(input, std::move(codec), {&limit, times_us.back()});
  FrameFinder finder(reader);
  ISOCOST_TRY(finder.start());
  std::span<const std::uint8_t> rgb;
  for (std::size_t i = 0; i < times_us.size(); ++i) {
    ISOCOST_ASSIGN(const bool changed, finder.find(times_us[i]));
    if (changed) {
      ISOCOST_ASSIGN(rgb, scaler.convert(finder.frame()));
    }
    ISOCOST_TRY(sink(i, rgb));
  }
  return {};
}

/// VP8 keeps pictures that are only referred to in packets of their own.
bool is_shown(const AVPacket& packet, AVCodecID codec) {
  constexpr std::uint8_t kShowFrame = 0x10;
  if ((packet.flags & AV_PKT_FLAG_DISCARD) != 0) return false;
  return codec != AV_CODEC_ID_VP8 || packet.size < 1 || (packet.data[0] & kShowFrame) != 0;
}

}  // namespace

Status video_frames(const ByteSource& source, const PartShape& shape,
                    std::span<const std::int64_t> times_us, std::int32_t target_width,
                    std::int32_t target_height, const VideoFrameSink& sink,
                    const DecodeLimit& limit) {
  ISOCOST_TRY(check_arguments(shape, times_us, target_width, target_height));
  FrameScaler scaler(target_width, target_height, shape.orientation, FrameColours::kOwn);
  return scaled_frames(source, shape, times_us, scaler, sink, limit);
}

Result<std::vector<std::int64_t>> video_frame_times_us(const ByteSource& source, MediaFormat format,
                                                       const DecodeLimit& limit) {
  ISOCOST_TRY(check_video_container(source, format));
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format));
  const AvPacket packet = make_av_packet();
  const AVCodecID codec = input.video()->codecpar->codec_id;
  const auto begun = limit.used();
  std::vector<std::int64_t> times;
  for (;;) {
    ISOCOST_TRY(limit.check(begun, 0));
    ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
    if (!more) break;
    const std::int64_t at = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts;
    if (at != AV_NOPTS_VALUE && is_shown(*packet, codec)) times.push_back(at);
  }
  if (times.empty()) return corrupt("its video has no frames");
  std::ranges::sort(times);
  const std::int64_t first = times.front();
  const AVRational time_base = input.video()->time_base;
  constexpr std::int64_t kMostTicks = std::int64_t{1} << 61;
  if (first < -kMostTicks || times.back() > kMostTicks) {
    return corrupt("its video has impossible times");
  }
  for (std::int64_t& time : times) {
    time = av_rescale_q_rnd(time - first, time_base, AV_TIME_BASE_Q, AV_ROUND_DOWN);
  }
  return times;
}

Status exact_video_frames(const ByteSource& source, const PartShape& shape,
                          std::span<const std::int64_t> indices, const VideoFrameSink& sink,
                          const DecodeLimit& limit) {
  ISOCOST_ASSIGN(const std::vector<std::int64_t> all,
                 video_frame_times_us(source, shape.format, limit));
  if (std::ssize(all) != shape.frames) return corrupt("its frames are not those that were counted");
  std::vector<std::int64_t> times;
  times.reserve(indices.size());
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= shape.frames) {
      return Error(ErrorCode::kInvalidArgument, "exact_video_frames: no such frame");
    }
    times.push_back(all[static_cast<std::size_t>(index)]);
  }
  ISOCOST_TRY(check_arguments(shape, times, shape.width, shape.height));
  FrameScaler scaler(shape.width, shape.height, shape.orientation, FrameColours::kAsTransformers);
  return scaled_frames(source, shape, times, scaler, sink, limit);
}

std::int64_t exact_video_working_set_bytes(const PartShape& shape) {
  constexpr std::int64_t kTimes =
      std::int64_t{3} * 8;  // of a vector that grows, and of the sampled frames
  return video_working_set_bytes(shape, shape.width, shape.height) + kTimes * shape.frames;
}

std::int64_t video_working_set_bytes(const PartShape& shape, std::int32_t target_width,
                                     std::int32_t target_height) {
  // A decoder may hold as many reference frames as its level allows (that of H.264 level 5.2, at
  // least 6, at most 16), three that are being reordered or shown, and one beside each of ours.
  constexpr std::int64_t kReferencePixels = std::int64_t{184'320} * 256;
  constexpr std::int64_t kBytesAPixel = 3;  // 4:2:0 in 10 bits
  const std::int64_t pixels = padded_pixels(shape, 128);
  const std::int64_t frames = std::clamp<std::int64_t>(kReferencePixels / pixels, 6, 16) + 4;
  const std::int64_t target = (std::int64_t{target_width} + 64) * (target_height + 64) * 3;
  constexpr std::int64_t kFixed = std::int64_t{8} << 20;  // tables, packets, scaler
  return frames * pixels * kBytesAPixel + 2 * target +
         std::min<std::int64_t>(shape.encoded_bytes, kFixed) + kFixed;
}

}  // namespace isocost
