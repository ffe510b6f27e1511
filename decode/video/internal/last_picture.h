#pragma once

#include <cstdint>
#include <vector>

#include "decode/bytes/ffmpeg_input.h"

struct AVFrame;
struct AVPacket;

namespace isocost {

/// Lets the picture before stand for the last one of a video if that is not whole, as where a
/// recording was ended or a file cut. Decoders may lose a picture before it, too, which they would
/// have shown with it. Times are ticks of the stream. Single-thread.
class LastPicture {
 public:
  enum class State {
    kAwaited,  ///< The packets that came decode.
    kBroken,   ///< The last packet does not decode.
  };

  LastPicture() : before_(make_av_frame()), next_(make_av_frame()) {}

  State state() const { return state_; }

  /// A packet with a picture was sent.
  void note_sent(const AVPacket& packet);
  /// A frame was given.
  void note_given(const AVFrame& frame);
  /// The reader has jumped. Any state becomes kAwaited.
  void jump();

  /// Tells that the packet that was sent last does not decode. Returns whether a frame can stand
  /// for it; kAwaited then becomes kBroken.
  bool note_broken();

  /// Returns whether `hold` is to be called with the decoder's next frame, if there is one.
  bool wants_next() const;
  void hold(AVFrame* next);
  /// With kBroken, moves the next frame of the video into `frame`. Returns false at the end.
  bool give(AVFrame* frame);

 private:
  State state_ = State::kAwaited;
  AvFrame before_;                  ///< The frame that was given last.
  AvFrame next_;                    ///< The decoder's next frame.
  std::vector<std::int64_t> owed_;  ///< When pictures are shown that were sent and not given.
  std::int64_t sent_ = 0;           ///< When the picture of the last packet is shown.
  bool is_shown_ = false;           ///< Whether that picture is.
  bool is_untimed_ = false;         ///< Whether its packet does not tell.
};

}  // namespace isocost
