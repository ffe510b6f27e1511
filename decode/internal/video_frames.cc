#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

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
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
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

}  // namespace

Status video_frames(const ByteSource& source, const PartShape& shape,
                    std::span<const std::int64_t> times_us, std::int32_t target_width,
                    std::int32_t target_height, const VideoFrameSink& sink,
                    const DecodeLimit& limit) {
  ISOCOST_TRY(check_arguments(shape, times_us, target_width, target_height));
  if (times_us.empty()) return {};
  ISOCOST_TRY(check_video_container(source, shape.format));
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, shape.format));
  ISOCOST_ASSIGN(AvCodec codec,
                 open_video_decoder(*input.video(), padded_pixels(shape, kDecoderRoom)));
  FrameReader reader(input, std::move(codec), {&limit, times_us.back()});
  FrameFinder finder(reader);
  FrameScaler scaler(target_width, target_height, shape.orientation);
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

std::int64_t video_working_set_bytes(const PartShape& shape, std::int32_t target_width,
                                     std::int32_t target_height) {
  // A decoder may hold as many reference frames as its level allows (that of H.264 level 5.2, at
  // least 6, at most 16), three that are being reordered or shown, and one beside each of ours.
  constexpr std::int64_t kReferencePixels = std::int64_t{184'320} * 256;
  constexpr std::int64_t kBytesAPixel = 3;  // 4:2:0 in 10 bits
  const std::int64_t pixels = padded_pixels(shape, 128);
  const std::int64_t frames = std::clamp<std::int64_t>(kReferencePixels / pixels, 6, 16) + 4;
  const std::int64_t target = (std::int64_t{target_width} + 64) * (target_height + 1) * 3;
  constexpr std::int64_t kFixed = std::int64_t{8} << 20;  // tables, packets, scaler
  return frames * pixels * kBytesAPixel + 2 * target +
         std::min<std::int64_t>(shape.encoded_bytes, kFixed) + kFixed;
}

}  // namespace isocost
