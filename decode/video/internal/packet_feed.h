#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"

namespace isocost {

/// The packets of a video that are worth decoding, in the order in which they are stored. Times are
/// ticks of the stream. Single-thread; the input must outlive it.
class PacketFeed {
 public:
  enum class State {
    kFirst,      ///< No packet was taken yet; those before the first key frame are left out.
    kFollowing,  ///< The next packet is the one after the last.
    kHeld,       ///< The next packet is the one that a jump has led to.
    kEnded,      ///< No packet follows.
  };

  explicit PacketFeed(FfmpegInput& input) : input_(input), packet_(make_av_packet()) {}

  State state() const { return state_; }

  /// Returns the next packet, which is valid until the next call; nullptr at the end. kFirst and
  /// kHeld become kFollowing, or any state kEnded. Errors: those of FfmpegInput::read_packet.
  Result<const AVPacket*> take();

  /// Moves to the last key frame at or before `ticks`. Any state becomes kHeld, or kFollowing if
  /// no packet is there. Errors: those of FfmpegInput::seek and read_packet.
  Status jump(std::int64_t ticks);

  /// The packet that a jump has led to while it was not taken; else nullptr.
  const AVPacket* held() const { return state_ == State::kHeld ? packet_.get() : nullptr; }

  /// Ends behind this many packets of the stream.
  void end_after(std::int64_t packets) { left_ = packets; }

  /// Tells that pictures before `ticks` are not wanted, unless others are predicted from them.
  void need_from(std::int64_t ticks) { need_from_ = ticks; }

 private:
  Result<bool> read();
  bool is_before_key() const;
  bool is_leading() const;
  bool is_needless() const;
  void note_leading(bool is_first);

  FfmpegInput& input_;
  AvPacket packet_;
  State state_ = State::kFirst;
  std::int64_t need_from_ = INT64_MIN;
  std::int64_t left_ = INT64_MAX;    ///< Packets before the end.
  std::optional<std::int64_t> key_;  ///< When the key frame is shown that the video begins with, or
                                     ///< that a jump led to, while its leading pictures may come.
};

}  // namespace isocost
