#include "decode/video/internal/shown_packets.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

extern "C" {
#include <libavcodec/codec_id.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
}

namespace isocost {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Types of HEVC's units (ITU-T H.265, table 7-1).
constexpr int kFirstLeading = 6;
constexpr int kRaslN = 8;
constexpr int kRaslR = 9;
constexpr int kFirstLink = 16;  // broken links: 16 to 18
constexpr int kLastLink = 18;
constexpr int kCleanRandomAccess = 21;
constexpr int kLastKey = 23;
constexpr int kLastPicture = 31;
constexpr int kEndOfSequence = 36;
constexpr int kEndOfStream = 37;

constexpr std::uint8_t kVideoObjectPlane = 0xB6;  // MPEG-4's start code of a picture

int type_of(std::uint8_t header) { return header >> 1 & 0x3F; }

/// Calls `visit` with the first byte of each unit of a packet.
template <typename Visit>
void for_each_unit(Bytes bytes, int length_bytes, const Visit& visit) {
  if (length_bytes == 0) {
    for (std::size_t i = 0; i + 3 < bytes.size(); ++i) {
      const bool starts = bytes[i] == 0 && bytes[i + 1] == 0 && bytes[i + 2] == 1;
      if (starts) visit(bytes[i + 3]);
    }
    return;
  }
  const auto head = static_cast<std::size_t>(length_bytes);
  while (bytes.size() > head) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < head; ++i) length = length << 8 | bytes[i];
    visit(bytes[head]);
    bytes = bytes.subspan(std::min(bytes.size(), head + length));
  }
}

/// Returns the size of the length fields before units, which the configuration in MP4 and Matroska
/// has: for HEVC at byte 21, for H.264 at byte 4.
int nal_length_bytes(const AVCodecParameters& codec) {
  const int at = codec.codec_id == AV_CODEC_ID_HEVC ? 21 : 4;
  if (codec.extradata_size <= at + 1 || codec.extradata[0] != 1) return 0;
  return (codec.extradata[at] & 3) + 1;
}

Bytes bytes_of(const AVPacket& packet) {
  return {packet.data, static_cast<std::size_t>(std::max(packet.size, 0))};
}

/// Returns whether a header of MPEG-1 or MPEG-2 says that the leading pictures of its group refer
/// to nothing before it (ITU-T H.262, 6.3.8).
bool has_closed_group(Bytes bytes) {
  constexpr std::uint8_t kGroupHeader = 0xB8;
  constexpr std::uint8_t kClosed = 0x40;
  for (std::size_t i = 0; i + 7 < bytes.size(); ++i) {
    const bool is_group =
        bytes[i] == 0 && bytes[i + 1] == 0 && bytes[i + 2] == 1 && bytes[i + 3] == kGroupHeader;
    if (is_group) return (bytes[i + 7] & kClosed) != 0;
  }
  return false;
}

/// Returns where the start code `00 00 01 CODE` begins; nothing where it does not.
std::optional<std::size_t> find_start_code(Bytes bytes, std::uint8_t code) {
  for (std::size_t i = 0; i + 3 < bytes.size(); ++i) {
    const bool is_found =
        bytes[i] == 0 && bytes[i + 1] == 0 && bytes[i + 2] == 1 && bytes[i + 3] == code;
    if (is_found) return i;
  }
  return std::nullopt;
}

/// Returns whether a unit of these types, the first of which is the smallest, is in a packet. They
/// lie behind parameter sets.
bool has_unit(const AVStream& stream, const AVPacket& packet, int first, int last) {
  const bool is_hevc = stream.codecpar->codec_id == AV_CODEC_ID_HEVC;
  bool has = false;
  for_each_unit(bytes_of(packet), nal_length_bytes(*stream.codecpar), [&](std::uint8_t header) {
    const int type = is_hevc ? type_of(header) : header & 0x1F;
    has |= first <= type && type <= last;
  });
  return has;
}

}  // namespace

bool is_bidirectional(const AVPacket& packet) {
  constexpr int kBidirectional = 3;  // ITU-T H.262, table 6-12
  const Bytes bytes = bytes_of(packet);
  const auto picture = find_start_code(bytes, 0);
  return picture && *picture + 5 < bytes.size() && (bytes[*picture + 5] >> 3 & 7) == kBidirectional;
}

bool is_bidirectional_plane(const AVPacket& packet) {
  constexpr int kBidirectional = 2;  // ISO/IEC 14496-2, table 6-20
  const Bytes bytes = bytes_of(packet);
  const auto plane = find_start_code(bytes, kVideoObjectPlane);
  return plane && *plane + 4 < bytes.size() && bytes[*plane + 4] >> 6 == kBidirectional;
}

bool holds_picture(const AVStream& stream, const AVPacket& packet) {
  // Larger packets than what belongs to no picture are not searched.
  constexpr int kSmall = 1024;
  constexpr int kIdr = 5;
  if (packet.size <= 0) return false;
  if (packet.size > kSmall) return true;
  switch (stream.codecpar->codec_id) {
    case AV_CODEC_ID_H264:
      return has_unit(stream, packet, 1, kIdr);
    case AV_CODEC_ID_HEVC:
      return has_unit(stream, packet, 0, kLastPicture);
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
      return find_start_code(bytes_of(packet), 0).has_value();
    case AV_CODEC_ID_MPEG4:
      return find_start_code(bytes_of(packet), kVideoObjectPlane).has_value();
    default:
      return true;
  }
}

bool begins_with_key_frame(int codec_id) {
  switch (codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
      return true;
    default:
      return false;
  }
}

bool is_key_frame(const AVStream& stream, const AVPacket& packet) {
  if ((packet.flags & AV_PKT_FLAG_KEY) != 0) return true;
  if (stream.codecpar->codec_id != AV_CODEC_ID_HEVC) return false;
  constexpr int kNone = -1;
  int picture = kNone;
  for_each_unit(bytes_of(packet), nal_length_bytes(*stream.codecpar), [&](std::uint8_t header) {
    const int type = type_of(header);
    if (picture == kNone && type <= kLastPicture) picture = type;
  });
  return picture >= kFirstLink && picture <= kLastKey;
}

bool loses_leading_pictures(const AVStream& stream, const AVPacket& key_frame) {
  switch (stream.codecpar->codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_VC1:
    case AV_CODEC_ID_WMV3:
      return true;
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
      return !has_closed_group(bytes_of(key_frame));
    default:
      return false;
  }
}

bool begins_in_open_group(const AVStream& stream, const AVPacket& packet) {
  constexpr int kPicture = 1;
  constexpr int kIdr = 5;
  if (stream.codecpar->codec_id != AV_CODEC_ID_H264) return false;
  int picture = 0;
  for_each_unit(bytes_of(packet), nal_length_bytes(*stream.codecpar), [&](std::uint8_t header) {
    const int type = header & 0x1F;
    if (picture == 0 && type >= kPicture && type <= kIdr) picture = type;
  });
  return picture != 0 && picture != kIdr;
}

bool is_never_referred_to(const AVStream& stream, const AVPacket& packet) {
  constexpr int kPicture = 1;
  constexpr std::uint8_t kReferred = 0x60;  // nal_ref_idc
  if (stream.codecpar->codec_id != AV_CODEC_ID_H264) return false;
  bool has_picture = false;
  bool only_such = true;
  for_each_unit(bytes_of(packet), nal_length_bytes(*stream.codecpar), [&](std::uint8_t header) {
    const int type = header & 0x1F;
    // Excludes parameter sets, pictures in partitions, and pictures that are references.
    has_picture |= type == kPicture;
    only_such &= (header & kReferred) == 0 && type != 0;
  });
  return has_picture && only_such;
}

ShownPackets::ShownPackets(const AVStream& stream)
    : stream_(stream), nal_length_bytes_(nal_length_bytes(*stream.codecpar)) {}

bool ShownPackets::has_begun() const {
  return had_key_ || !begins_with_key_frame(stream_.codecpar->codec_id);
}

bool ShownPackets::is_shown(const AVPacket& packet) {
  constexpr std::uint8_t kVp8Shown = 0x10;
  const AVCodecID codec = stream_.codecpar->codec_id;
  // Pictures that an edit list cuts away are decoded nevertheless.
  const bool decodable = is_decodable(packet);
  if ((packet.flags & AV_PKT_FLAG_DISCARD) != 0) return false;
  const bool is_hidden =
      codec == AV_CODEC_ID_VP8 && packet.size > 0 && (packet.data[0] & kVp8Shown) == 0;
  return decodable && !is_hidden && holds_picture(stream_, packet);
}

bool ShownPackets::is_decodable(const AVPacket& packet) {
  const AVCodecID codec = stream_.codecpar->codec_id;
  const bool is_first_key = !had_key_ && is_key_frame(stream_, packet);
  had_key_ |= is_first_key;
  if (!has_begun()) return false;
  if (codec == AV_CODEC_ID_HEVC) return is_decodable_hevc(packet);
  if (is_first_key && packet.pts == AV_NOPTS_VALUE) {
    const bool is_mpeg2 = codec == AV_CODEC_ID_MPEG1VIDEO || codec == AV_CODEC_ID_MPEG2VIDEO;
    is_leading_by_type_ = is_mpeg2 && loses_leading_pictures(stream_, packet);
    return true;
  }
  // A program stream need not state times, but MPEG-2 stores leading pictures before any other.
  if (is_leading_by_type_) {
    is_leading_by_type_ = is_bidirectional(packet);
    return !is_leading_by_type_;
  }
  if (packet.pts == AV_NOPTS_VALUE) return true;
  if (is_first_key && loses_leading_pictures(stream_, packet)) first_key_ = packet.pts;
  if (is_first_key && !first_key_) in_leading_ = false;
  if (!first_key_) return true;
  if (packet.pts > *first_key_) in_leading_ = false;
  return !in_leading_ || packet.pts >= *first_key_;
}

bool ShownPackets::is_decodable_hevc(const AVPacket& packet) {
  constexpr int kNone = -1;
  int picture = kNone;
  bool ends = false;
  for_each_unit(bytes_of(packet), nal_length_bytes_, [&](std::uint8_t header) {
    const int type = type_of(header);
    const bool is_end = type == kEndOfSequence || type == kEndOfStream;
    if (is_end && picture == kNone) after_end_ = true;
    ends |= is_end && picture != kNone;
    if (type <= kLastPicture && picture == kNone) picture = type;
  });
  if (picture >= kFirstLink && picture <= kLastKey) {
    const bool is_link = picture <= kLastLink;
    skips_rasl_ = is_link || (picture == kCleanRandomAccess && after_end_);
    in_leading_ = skips_rasl_;
    after_end_ = false;
  } else if (picture >= 0 && picture < kFirstLeading) {
    in_leading_ = false;  // all leading pictures come before the first other picture
  }
  if (ends) after_end_ = true;
  return !(skips_rasl_ && (picture == kRaslN || picture == kRaslR));
}

}  // namespace isocost
