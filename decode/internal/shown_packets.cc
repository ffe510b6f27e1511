#include "decode/internal/shown_packets.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

extern "C" {
#include <libavcodec/codec_id.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
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

int type_of(std::uint8_t header) { return header >> 1 & 0x3F; }

/// Calls `visit` with the type of each unit of a packet.
template <typename Visit>
void for_each_unit(Bytes bytes, int length_bytes, const Visit& visit) {
  if (length_bytes == 0) {
    for (std::size_t i = 0; i + 3 < bytes.size(); ++i) {
      const bool starts = bytes[i] == 0 && bytes[i + 1] == 0 && bytes[i + 2] == 1;
      if (starts) visit(type_of(bytes[i + 3]));
    }
    return;
  }
  const auto head = static_cast<std::size_t>(length_bytes);
  while (bytes.size() > head) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < head; ++i) length = length << 8 | bytes[i];
    visit(type_of(bytes[head]));
    bytes = bytes.subspan(std::min(bytes.size(), head + length));
  }
}

/// The length of the lengths before units, which HEVC's configuration in MP4 and Matroska has.
int nal_length_bytes(const AVCodecParameters& codec) {
  constexpr int kConfiguration = 23;
  if (codec.codec_id != AV_CODEC_ID_HEVC || codec.extradata_size < kConfiguration) return 0;
  return codec.extradata[0] == 1 ? (codec.extradata[21] & 3) + 1 : 0;
}

}  // namespace

ShownPackets::ShownPackets(const AVStream& stream)
    : stream_(stream), nal_length_bytes_(nal_length_bytes(*stream.codecpar)) {}

bool ShownPackets::is_shown(const AVPacket& packet) {
  constexpr std::uint8_t kVp8Shown = 0x10;
  const AVCodecID codec = stream_.codecpar->codec_id;
  // Pictures that an edit list cuts away are decoded all the same.
  const bool in_sequence = codec != AV_CODEC_ID_HEVC || is_shown_hevc(packet);
  if ((packet.flags & AV_PKT_FLAG_DISCARD) != 0) return false;
  if (codec == AV_CODEC_ID_VP8) return packet.size < 1 || (packet.data[0] & kVp8Shown) != 0;
  return in_sequence;
}

bool ShownPackets::is_shown_hevc(const AVPacket& packet) {
  constexpr int kNone = -1;
  int picture = kNone;
  bool ends = false;
  const Bytes bytes{packet.data, static_cast<std::size_t>(std::max(packet.size, 0))};
  for_each_unit(bytes, nal_length_bytes_, [&](int type) {
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
    in_leading_ = false;  // leading pictures all come before the first other one
  }
  if (ends) after_end_ = true;
  return !(skips_rasl_ && (picture == kRaslN || picture == kRaslR));
}

}  // namespace isocost
