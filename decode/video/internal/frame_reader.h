#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/shape/decode_limit.h"
#include "decode/video/internal/frame_clock.h"
#include "decode/video/internal/jump_progress.h"
#include "decode/video/internal/key_frame_index.h"
#include "decode/video/internal/last_picture.h"
#include "decode/video/internal/leniency.h"
#include "decode/video/internal/packet_feed.h"

namespace isocost {

/// The limit of a reader, and the time in the video up to which it is asked to decode.
struct FrameReaderLimit {
  const DecodeLimit* limit;
  std::int64_t until_us;
};

/// Frames that a reader returns: kSome may leave out frames before `need_from` that no other frame
/// refers to. It fails where kEvery would go back to find a reference after a jump.
enum class FramesGiven { kEvery, kSome };

/// Decodes the frames of a video in display order and jumps to key frames. Times are microseconds
/// from the first frame, or from `origin` in ticks of the stream. Single-thread; the input must
/// outlive it.
class FrameReader {
 public:
  FrameReader(FfmpegInput& input, AvCodec codec, FrameReaderLimit limit,
              std::optional<std::int64_t> origin = std::nullopt,
              FramesGiven given = FramesGiven::kEvery);

  /// Reads the next frame into `frame`. Returns false at the end. The first call must come before
  /// any `seek`: it sets the origin of time. Errors: kCorrupt (a packet or frame that does not
  /// decode), kIo, those of the limit.
  Result<bool> next(AVFrame* frame);

  /// With FramesGiven::kSome, states that no frame that starts before `time_us` is wanted.
  void need_from(std::int64_t time_us);

  /// When the frame that `next` gave last starts.
  std::int64_t time_us() const { return clock_.time_us(); }
  /// The frame's duration, as far as packets or its neighbours show it.
  std::int64_t interval_us() const { return clock_.interval_us(); }

  /// When that frame starts, in ticks of the stream.
  std::int64_t ticks() const { return clock_.last_ticks(); }

  /// Ends behind this many packets of the stream, with the frames that are in them.
  void end_after(std::int64_t packets) { packets_.end_after(packets); }

  /// Jumps to the last key frame at or before `time_us` if the index has one after the frame
  /// returned last. Otherwise stays, since going on costs less, and returns false. Errors: those of
  /// `next`.
  Result<bool> seek(std::int64_t time_us);

  /// Returns the progress since the last jump, for tests.
  const JumpProgress& progress() const { return progress_; }

 private:
  Result<bool> read(AVFrame* frame);
  Result<bool> read_behind_broken(AVFrame* frame);
  Result<bool> decode(AVFrame* frame);
  Status send_packet();
  void begin(const AVPacket& packet);
  Status jump(std::int64_t target);
  Status move_to(std::int64_t target);
  Result<bool> go_back();
  Error undecodable(int code) const;
  bool is_cut_away(const AVFrame& frame);
  bool lacks_references(const Result<bool>& got) const;
  bool may_look_beyond_index(const AVIndexEntry* entry, std::int64_t time_us) const;
  Status check_limit() const;

  FfmpegInput& input_;
  AvCodec codec_;
  const FrameReaderLimit limit_;
  const std::chrono::nanoseconds begun_;  ///< DecodeLimit::used then.
  const int strictness_;                  ///< The codec's own err_recognition.
  const FramesGiven gives_;
  KeyFrameIndex index_;
  PacketFeed packets_;
  FrameClock clock_;
  Leniency leniency_;
  JumpProgress progress_;
  LastPicture last_picture_;
  std::vector<std::int64_t> cut_away_;  ///< Times of packets that an edit list cuts away, of AV1.
};

}  // namespace isocost
