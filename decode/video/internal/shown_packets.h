#pragma once

#include <cstdint>
#include <optional>

struct AVPacket;
struct AVStream;

namespace isocost {

/// Returns whether nothing is shown of a video before its first key frame. Decoders of other codecs
/// show what they make of it.
bool begins_with_key_frame(int codec_id);

/// Returns whether decoding may begin with this packet: its container says so, or HEVC's own
/// header.
bool is_key_frame(const AVStream& stream, const AVPacket& packet);

/// Returns whether pictures that are shown before this first key frame but stored after it can
/// never be decoded, as those of H.264 and MPEG-4 in a video that was cut in an open group of
/// pictures. HEVC's packets say so themselves.
bool loses_leading_pictures(const AVStream& stream, const AVPacket& key_frame);

/// Returns whether an H.264 video that begins with this packet was cut in an open group of
/// pictures.
bool begins_in_open_group(const AVStream& stream, const AVPacket& packet);

/// Returns whether a packet holds a picture. Some hold only a delimiter or the end of a sequence,
/// as the last one of a file may.
bool holds_picture(const AVStream& stream, const AVPacket& packet);

/// Returns whether a packet of MPEG-1 or MPEG-2 holds a picture that is predicted from one before
/// it and one after it.
bool is_bidirectional(const AVPacket& packet);

/// Returns the same for MPEG-4, whose pictures are planes of video objects.
bool is_bidirectional_plane(const AVPacket& packet);

/// Returns whether a packet holds only a picture from which no other one is predicted; known for
/// H.264 alone.
bool is_never_referred_to(const AVStream& stream, const AVPacket& packet);

/// Finds the packets of a video stream, in the order in which they are stored, that hold a picture
/// that is shown. These are not shown: packets without a picture, pictures that an edit list cuts
/// away, VP8's hidden references, pictures before the first key frame, and leading pictures that
/// refer to pictures before the first key frame and, for HEVC, also before a broken link or the end
/// of a sequence. Single-thread; the stream must outlive it.
class ShownPackets {
 public:
  explicit ShownPackets(const AVStream& stream);

  bool is_shown(const AVPacket& packet);

  /// Returns whether the first key frame has come, or none is waited for.
  bool has_begun() const;

  /// Returns whether the next packets may be leading pictures that are not shown, as at the start.
  bool in_leading() const { return in_leading_; }

 private:
  bool is_decodable(const AVPacket& packet);
  bool is_decodable_hevc(const AVPacket& packet);

  const AVStream& stream_;
  int nal_length_bytes_ = 0;  ///< For HEVC; 0: start codes.
  bool after_end_ = true;     ///< Whether the next key frame begins a sequence.
  bool skips_rasl_ = false;   ///< Whether RASL pictures are skipped since the last key frame.
  bool had_key_ = false;
  std::optional<std::int64_t> first_key_;  ///< Ticks; set where leading pictures are lost.
  bool in_leading_ = true;
  /// The first key frame has no time, and only its leading pictures have followed.
  bool is_leading_by_type_ = false;
};

}  // namespace isocost
