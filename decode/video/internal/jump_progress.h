#pragma once

#include <cstdint>
#include <optional>

struct AVPacket;

namespace isocost {

/// The use of a decoded frame.
enum class FrameUse {
  kWarmUp,  ///< The frame only fills the decoder's memory.
  kRepeat,  ///< The frame was given before the reader went back.
  kNew,     ///< The frame is the next one.
};

/// The place where a reader began to decode, and its packets and frames since. Times are in ticks
/// of the stream.
/// Single-thread.
class JumpProgress {
 public:
  enum class State {
    kStarted,   ///< At the start of the video, or at a packet that does not state its time.
    kJumped,    ///< At a key frame.
    kWentBack,  ///< At an earlier key frame, since references were missing after that one.
  };

  struct Landing {
    std::int64_t target;         ///< The key frame's time, as the index counts it.
    std::int64_t shown_at;       ///< When the key frame of `jump` is shown.
    std::int64_t sent = 0;       ///< Packets of frames from that one on.
    std::int64_t given = 0;      ///< Frames, since `jump`.
    int times_back = 0;          ///< How often the reader has gone back.
    std::int64_t to_repeat = 0;  ///< Frames that come again.
  };

  State state() const;

  /// Any state becomes kJumped, or kStarted if `shown_at` is not known.
  void jump(std::int64_t target, std::optional<std::int64_t> shown_at);
  /// kJumped or kWentBack becomes kWentBack, again. Frames given since the jump come again.
  void go_back(std::int64_t target);

  void note_sent(const AVPacket& packet);
  void note_given();
  void note_repeated();

  FrameUse use_of(std::int64_t pts) const;
  /// Returns whether fewer frames came than packets were sent since a jump.
  bool lacks_frames() const;
  /// Returns the landing to go back from; nothing if going back cannot help, or cannot any more.
  std::optional<Landing> retreat() const;

 private:
  std::optional<Landing> landing_;  ///< None: kStarted.
};

}  // namespace isocost
