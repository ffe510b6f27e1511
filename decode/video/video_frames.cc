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
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/media_codecs.h"
#include "decode/bytes/media_container.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/internal/frame_reader.h"
#include "decode/video/internal/frame_scaler.h"
#include "decode/video/video.h"

extern "C" {
#include <libavutil/frame.h>
}

namespace isocost {
namespace {

constexpr std::int64_t kEarlyToleranceUs = 500'000;

/// Whether a reader jumps to key frames, or decodes all frames up to the last one.
enum class Jumps { kYes, kNo };

/// Whether frames may come in another order than that of their times.
enum class Order { kAny, kOfTimes };

/// Finds the frame on screen at a time, for ascending times. One frame is decoded ahead, because
/// only the next one shows how long a frame stays.
class FrameFinder {
 public:
  FrameFinder(FrameReader& reader, Jumps jumps, Order order)
      : reader_(reader),
        jumps_(jumps),
        order_(order),
        current_(make_av_frame()),
        next_(make_av_frame()) {}

  Status start() {
    ISOCOST_TRY(fetch());
    if (!has_next_) return corrupt("its video has no frames");
    first_ = true;
    return {};
  }

  /// Finds the frame at a time. Returns whether it differs from the one found before. `is_lost`
  /// says afterwards whether there is none.
  Result<bool> find(std::int64_t time_us) {
    bool changed = std::exchange(first_, false);
    if (!ended_ && next_us_ < time_us) ISOCOST_TRY(try_seek(time_us));
    if (is_lost_) return false;
    while (has_next_ && (next_us_ <= time_us || !has_current_)) {
      std::swap(current_, next_);
      current_us_ = next_us_;
      has_current_ = changed = true;
      ISOCOST_TRY(fetch());
    }
    if (!has_current_ || (ended_ && time_us > end_us_ + kEarlyToleranceUs)) return ends_early();
    return changed;
  }

  /// Finds the frame that is shown at exactly this time, after `before` others of that time.
  Status find_exact(std::int64_t time_us, std::int64_t before, bool is_alone) {
    // A key frame of that time may come after the first of several frames of it.
    if (!ended_ && next_us_ < time_us) ISOCOST_TRY(try_seek(is_alone ? time_us : time_us - 1));
    while (has_next_ && (next_us_ < time_us || (next_us_ == time_us && before_next() <= before))) {
      before_current_ = before_next();
      std::swap(current_, next_);
      current_us_ = next_us_;
      has_current_ = true;
      ISOCOST_TRY(fetch());
    }
    if (has_current_ && current_us_ == time_us && before_current_ == before) return {};
    return corrupt("its video does not show all frames that its container has");
  }

  const AVFrame& frame() const { return *current_; }

  /// Returns whether a jump has lost the frame that was asked for last. Behind a key frame that
  /// only begins to refresh the picture, decoders show nothing until it is whole.
  bool is_lost() const { return is_lost_; }

 private:
  /// Returns how many frames of the next one's time came before it, since the last jump.
  std::int64_t before_next() const {
    return has_current_ && current_us_ == next_us_ ? before_current_ + 1 : 0;
  }

  Status fetch() {
    ISOCOST_ASSIGN(has_next_, reader_.next(next_.get()));
    if (has_next_) {
      const std::int64_t before = std::exchange(next_us_, reader_.time_us());
      if (order_ == Order::kOfTimes && next_us_ < before) {
        return corrupt("its video does not show its frames in the order of their times");
      }
    } else {
      ended_ = true;
      end_us_ = reader_.time_us() + reader_.interval_us();
    }
    return {};
  }

  Status try_seek(std::int64_t time_us) {
    if (jumps_ == Jumps::kNo) return {};
    ISOCOST_ASSIGN(const bool jumped, reader_.seek(time_us));
    if (!jumped) return {};
    has_current_ = false;
    ISOCOST_TRY(fetch());
    is_lost_ = !has_next_ || next_us_ > time_us;
    return {};
  }

  Error ends_early() const {
    char text[64];
    std::snprintf(text, sizeof text, "its video ends early, at %.2f s",
                  static_cast<double>(end_us_) / 1e6);
    return corrupt(text);
  }

  FrameReader& reader_;
  const Jumps jumps_;
  const Order order_;
  AvFrame current_;
  AvFrame next_;
  bool has_current_ = false;
  bool has_next_ = false;
  bool first_ = false;
  bool ended_ = false;
  bool is_lost_ = false;
  std::int64_t current_us_ = 0;
  std::int64_t next_us_ = 0;
  std::int64_t end_us_ = 0;
  std::int64_t before_current_ = 0;  ///< number of frames of its time before it
};

/// Returns the pixels of the frame with the blocks and edges to which decoders round it up.
std::int64_t padded_pixels(const PartShape& shape, std::int64_t room) {
  return (shape.width + room) * (shape.height + room);
}

/// Room that a decoder is allowed: its smallest scratch buffer, about 280 lines, counts as a frame.
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

/// A video whose frames are requested by time, and those of them that the sink has received.
struct TimedVideo {
  const ByteSource& source;
  const PartShape& shape;
  std::span<const std::int64_t> times_us;
  const DecodeLimit& limit;
  std::size_t done = 0;
};

/// Passes the frames on that are not done. Returns false if a jump has lost the next one.
Result<bool> pass_on(TimedVideo& video, Jumps jumps, FrameScaler& scaler,
                     const VideoFrameSink& sink) {
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(video.source, video.shape.format));
  ISOCOST_ASSIGN(AvCodec codec,
                 open_decoder(*input.stream(), padded_pixels(video.shape, kDecoderRoom)));
  FrameReader reader(input, std::move(codec), {&video.limit, video.times_us.back()});
  FrameFinder finder(reader, jumps, Order::kAny);
  ISOCOST_TRY(finder.start());
  std::span<const std::uint8_t> rgb;
  for (; video.done < video.times_us.size(); ++video.done) {
    ISOCOST_ASSIGN(const bool changed, finder.find(video.times_us[video.done]));
    if (finder.is_lost()) return false;
    if (changed) {
      ISOCOST_ASSIGN(rgb, scaler.convert(finder.frame()));
    }
    ISOCOST_TRY(sink(video.done, rgb));
  }
  return true;
}

/// Implements video_frames, with a scaler for the target size.
Status scaled_frames(TimedVideo video, FrameScaler& scaler, const VideoFrameSink& sink) {
  if (video.times_us.empty()) return {};
  ISOCOST_TRY(check_media_container(video.source, video.shape.format));
  const Result<bool> jumping = pass_on(video, Jumps::kYes, scaler, sink);
  if (jumping && *jumping) return {};
  // A jump may lose a frame, and meet marks in the container that reading on does not need.
  if (!jumping && jumping.error().code() != ErrorCode::kCorrupt) return jumping.error();
  ISOCOST_ASSIGN([[maybe_unused]] const bool is_all, pass_on(video, Jumps::kNo, scaler, sink));
  return {};
}

/// Decodes from the first frame to the last index.
Status counted_frames(FrameReader& reader, std::span<const std::int64_t> indices,
                      FrameScaler& scaler, const VideoFrameSink& sink) {
  const AvFrame frame = make_av_frame();
  std::int64_t decoded = 0;
  std::span<const std::uint8_t> rgb;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const bool is_other = decoded <= indices[i];
    while (decoded <= indices[i]) {
      ISOCOST_ASSIGN(const bool more, reader.next(frame.get()));
      if (!more) return corrupt("its video does not show all frames that its container has");
      ++decoded;
    }
    if (is_other) {
      ISOCOST_ASSIGN(rgb, scaler.convert(*frame));
    }
    ISOCOST_TRY(sink(i, rgb));
  }
  return {};
}

/// Decodes all frames, and passes on the indices from `done` on. A frame more or fewer
/// than was counted is an error, as their numbers would be others.
Status all_frames(FrameReader& reader, const PartShape& shape,
                  std::span<const std::int64_t> indices, FrameScaler& scaler,
                  const VideoFrameSink& sink, std::size_t& done) {
  const AvFrame frame = make_av_frame();
  std::int64_t number = 0;
  for (;; ++number) {
    ISOCOST_ASSIGN(const bool more, reader.next(frame.get()));
    if (!more) break;
    if (done == indices.size() || indices[done] != number) continue;
    ISOCOST_ASSIGN(const auto rgb, scaler.convert(*frame));
    for (; done < indices.size() && indices[done] == number; ++done) ISOCOST_TRY(sink(done, rgb));
  }
  if (number == shape.frames) return {};
  return corrupt("its video does not show all frames that its container has");
}

/// A video whose frames are requested by number.
struct NumberedVideo {
  const ByteSource& source;
  const PartShape& shape;
  const VideoFrameTimes& times;
  const DecodeLimit& limit;
};

/// Opens the video again and calls `read` with a reader that will read up to frame `last`.
template <typename Read>
Status with_reader(const NumberedVideo& video, std::int64_t last, FramesGiven given,
                   const Read& read) {
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(video.source, video.shape.format));
  ISOCOST_ASSIGN(AvCodec codec,
                 open_decoder(*input.stream(), padded_pixels(video.shape, kDecoderRoom)));
  const std::int64_t until_us = video.times.us[static_cast<std::size_t>(last)];
  FrameReader reader(input, std::move(codec), {&video.limit, until_us}, video.times.origin, given);
  return read(reader);
}

/// Jumps to the frames' times. `done` counts the indices that the sink has received.
Status timed_frames(FrameReader& reader, const std::vector<std::int64_t>& times_us,
                    std::span<const std::int64_t> indices, FrameScaler& scaler,
                    const VideoFrameSink& sink, std::size_t& done) {
  const auto time_of = [&](std::size_t i) {
    return times_us.at(static_cast<std::size_t>(indices[i]));
  };
  reader.need_from(time_of(done));
  FrameFinder finder(reader, Jumps::kYes, Order::kOfTimes);
  ISOCOST_TRY(finder.start());
  std::span<const std::uint8_t> rgb;
  for (const std::size_t first = done; done < indices.size(); ++done) {
    if (done == first || indices[done] != indices[done - 1]) {
      const auto same = std::ranges::equal_range(times_us, time_of(done));
      const std::int64_t number = indices[done] - (same.begin() - times_us.begin());
      reader.need_from(same.front());
      ISOCOST_TRY(finder.find_exact(same.front(), number, same.size() == 1));
      ISOCOST_ASSIGN(rgb, scaler.convert(finder.frame()));
    }
    ISOCOST_TRY(sink(done, rgb));
  }
  return {};
}

/// Leaves out frames between those that are wanted, if that works. It does not work where a
/// group of pictures refers to pictures before it.
Status timed_frames(const NumberedVideo& video, std::span<const std::int64_t> indices,
                    FrameScaler& scaler, const VideoFrameSink& sink) {
  std::size_t done = 0;
  const auto read = [&](FrameReader& reader) {
    return timed_frames(reader, video.times.us, indices, scaler, sink, done);
  };
  const auto has_failed = [](const Status& status) {
    return !status && status.error().code() == ErrorCode::kCorrupt;
  };
  Status tried = with_reader(video, indices.back(), FramesGiven::kSome, read);
  if (has_failed(tried)) tried = with_reader(video, indices.back(), FramesGiven::kEvery, read);
  if (!has_failed(tried)) return tried;
  // Key frames may only begin to refresh the picture, and times may not be those of the frames.
  return with_reader(video, video.shape.frames - 1, FramesGiven::kEvery, [&](FrameReader& reader) {
    return all_frames(reader, video.shape, indices, scaler, sink, done);
  });
}

bool are_frames_of(std::span<const std::int64_t> indices, const PartShape& shape) {
  return std::ranges::is_sorted(indices) &&
         (indices.empty() || (indices.front() >= 0 && indices.back() < shape.frames));
}

}  // namespace

Status video_frames(const ByteSource& source, const PartShape& shape,
                    std::span<const std::int64_t> times_us, std::int32_t target_width,
                    std::int32_t target_height, const VideoFrameSink& sink,
                    const DecodeLimit& limit) {
  ISOCOST_TRY(check_arguments(shape, times_us, target_width, target_height));
  FrameScaler scaler(target_width, target_height, shape.orientation, FrameColours::kOwn);
  return scaled_frames({source, shape, times_us, limit}, scaler, sink);
}

Status exact_video_frames(const ByteSource& source, const PartShape& shape,
                          std::span<const std::int64_t> indices, const VideoFrameSink& sink,
                          const DecodeLimit& limit) {
  ISOCOST_TRY(check_arguments(shape, {}, shape.width, shape.height));
  ISOCOST_ASSIGN(const VideoFrameTimes all, video_frame_times(source, shape.format, limit));
  if (std::ssize(all.us) != shape.frames) {
    return corrupt("its frames are not those that were counted");
  }
  if (!are_frames_of(indices, shape)) {
    return Error(ErrorCode::kInvalidArgument, "exact_video_frames: no such frame, or not in order");
  }
  if (indices.empty()) return {};
  FrameScaler scaler(shape.width, shape.height, shape.orientation, FrameColours::kAsTransformers);
  const NumberedVideo video{source, shape, all, limit};
  // AVI contains the decoding times of pictures, declared as the times at which they are shown.
  // Streams, such as MPEG-TS, have no key frames to jump to, and their times may restart.
  const bool is_timed =
      all.all_told && (shape.format == MediaFormat::kMp4 || shape.format == MediaFormat::kMatroska);
  if (is_timed) return timed_frames(video, indices, scaler, sink);
  return with_reader(video, indices.back(), FramesGiven::kEvery, [&](FrameReader& reader) {
    return counted_frames(reader, indices, scaler, sink);
  });
}

std::int64_t exact_video_working_set_bytes(const PartShape& shape) {
  constexpr std::int64_t kTimes =
      std::int64_t{3} * 8;  // for a vector that grows, and for the sampled frames
  return video_working_set_bytes(shape, shape.width, shape.height) + kTimes * shape.frames;
}

std::int64_t video_working_set_bytes(const PartShape& shape, std::int32_t target_width,
                                     std::int32_t target_height) {
  // A decoder may hold as many reference frames as its level allows (that of H.264 level 5.2, at
  // least 6, at most 16), three frames that are being reordered or shown, and one beside each of
  // ours.
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
