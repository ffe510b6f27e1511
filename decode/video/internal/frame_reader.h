#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/shape/decode_limit.h"

struct AVIndexEntry;

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

  /// Declares, with FramesGiven::kSome, that no frame that starts before `time_us` is wanted.
  void need_from(std::int64_t time_us) { need_from_ = ticks(time_us); }

  /// Returns when the frame that `next` returned last starts.
  std::int64_t time_us() const { return time_us_; }
  /// Returns how long that frame lasts, as far as packets or its neighbours tell.
  std::int64_t interval_us() const { return interval_us_; }

  /// Jumps to the last key frame at or before `time_us` if the index has one after the frame
  /// returned last. Otherwise stays, since going on costs less, and returns false. Errors: those of
  /// `next`.
  Result<bool> seek(std::int64_t time_us);

 private:
  Result<bool> decode(AVFrame* frame);
  bool is_wanted(const AVFrame& frame);
  Status send_packet();
  Status jump(std::int64_t target);
  bool lacks_references(const Result<bool>& got) const;
  bool is_shown_since_jump(const AVPacket& packet) const;
  Result<bool> go_back();
  void set_lenient(bool lenient, std::int64_t packets = 0);
  void begin();
  bool is_warm();
  void note_time(const AVFrame& frame);
  bool is_leading(const AVPacket& packet);
  bool is_needless(const AVPacket& packet);
  bool may_know_more(const AVIndexEntry* entry, std::int64_t time_us) const;
  std::int64_t ticks(std::int64_t time_us) const;
  Status check_limit() const;

  FfmpegInput& input_;
  AvCodec codec_;
  AvPacket packet_;
  const FrameReaderLimit limit_;
  const std::chrono::nanoseconds begun_;  ///< DecodeLimit::used at construction.
  bool index_is_whole_;   ///< Seeking will not find more key frames than the index now has.
  const int strictness_;  ///< Setting of the codec.
  const FramesGiven gives_;
  std::int64_t need_from_ = INT64_MIN;  ///< In ticks.
  bool pending_ = false;                ///< packet_ is read but not sent.
  bool draining_ = false;               ///< The decoder has been told that no packet follows.
  std::optional<std::int64_t> origin_;  ///< Ticks of the first frame.
  std::optional<std::int64_t> key_;     ///< Ticks of the key frame jumped to, while its leading
                                        ///< pictures may come.
  std::int64_t last_ = 0;               ///< Ticks of the frame returned last.
  std::int64_t reorder_ = 0;            ///< Ticks from decoding to showing a key frame.
  std::int64_t time_us_ = 0;
  std::int64_t interval_us_ = 0;
  bool first_packet_ = true;
  // State of the last jump.
  std::int64_t jumped_to_ = 0;             ///< Ticks, as the index counts them.
  std::optional<std::int64_t> landed_at_;  ///< Ticks at which its key frame is shown.
  std::int64_t sent_ = 0;   ///< Packets since then whose frames are shown from that key frame on.
  std::int64_t given_ = 0;  ///< Frames since then.
  // State of going back from it.
  int went_back_ = 0;                    ///< Number of times.
  std::optional<std::int64_t> warm_up_;  ///< Ticks of the key frame before which frames only fill
                                         ///< the decoder's memory.
  std::int64_t to_skip_ = 0;             ///< Frames from that one on that were already returned.
  std::int64_t lenient_packets_ = 0;     ///< Number left, for a video cut in an open group.
  bool begins_open_ = false;             ///< Whether the video begins in an open group.
  bool is_lenient_ = false;              ///< Whether the decoder skips what it cannot decode.
};

}  // namespace isocost
