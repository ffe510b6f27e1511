#pragma once

struct AVPacket;
struct AVStream;

namespace isocost {

/// Tells which packets of a video stream, in the order in which they are stored, hold a picture
/// that is shown. Not shown are those that an edit list cuts away, VP8's hidden references, and
/// leading pictures of HEVC that refer to what was before the first key frame, before a broken
/// link or before the end of a sequence. Single-thread; the stream must outlive it.
class ShownPackets {
 public:
  explicit ShownPackets(const AVStream& stream);

  bool is_shown(const AVPacket& packet);

  /// Whether the next packets may be leading pictures that are not shown, as at the start.
  bool in_leading() const { return in_leading_; }

 private:
  bool is_shown_hevc(const AVPacket& packet);

  const AVStream& stream_;
  int nal_length_bytes_ = 0;  ///< Of HEVC; 0: start codes.
  bool after_end_ = true;     ///< A key frame that comes now begins a sequence.
  bool skips_rasl_ = false;   ///< Since the last key frame.
  bool in_leading_ = true;
};

}  // namespace isocost
