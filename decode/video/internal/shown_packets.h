#pragma once

#include <cstdint>
#include <optional>

struct AVPacket;
struct AVStream;

namespace isocost {

/// Whether pictures that are shown before the first key frame but stored behind it can be decoded
/// in no case: those of H.264 and MPEG-4, of a video that was cut in an open group of pictures.
bool loses_leading_pictures(int codec_id);

/// Whether a video of H.264 that begins with this packet was cut in an open group of pictures.
bool begins_in_open_group(const AVStream& stream, const AVPacket& packet);

/// Whether a packet holds nothing but a picture that no other one is predicted from, as far as is
/// known: of H.264 alone.
bool is_never_referred_to(const AVStream& stream, const AVPacket& packet);

/// Tells which packets of a video stream, in the order in which they are stored, hold a picture
/// that is shown. Not shown are those that an edit list cuts away, VP8's hidden references, and
/// leading pictures that refer to what was before the first key frame, and of HEVC also before a
/// broken link or the end of a sequence. Single-thread; the stream must outlive it.
class ShownPackets {
 public:
  explicit ShownPackets(const AVStream& stream);

  bool is_shown(const AVPacket& packet);

  /// Whether the next packets may be leading pictures that are not shown, as at the start.
  bool in_leading() const { return in_leading_; }

 private:
  bool is_decodable(const AVPacket& packet);
  bool is_decodable_hevc(const AVPacket& packet);

  const AVStream& stream_;
  int nal_length_bytes_ = 0;               ///< Of HEVC; 0: start codes.
  bool after_end_ = true;                  ///< A key frame that comes now begins a sequence.
  bool skips_rasl_ = false;                ///< Since the last key frame.
  std::optional<std::int64_t> first_key_;  ///< Ticks; of codecs that lose leading pictures.
  bool in_leading_ = true;
};

}  // namespace isocost
