// Reads headers of WebP: its container specification, RFC 6386 and the lossless format's.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_headers.h"
#include "decode/image/internal/orientation_tags.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

struct WebpChunk {
  std::int64_t at = 0;    ///< Offset of its header.
  std::int64_t body = 0;  ///< Bytes after its header.
  std::int64_t next() const { return at + 8 + body + (body & 1); }
};

/// Reads the frame tag of a key frame and its start code.
Status read_vp8(HeaderWindow& window, const WebpChunk& chunk, PartShape& shape) {
  ISOCOST_ASSIGN(const ByteView bytes, window.all(chunk.at + 8, 10, "its WebP header"));
  if ((bytes[0] & 1) != 0 || big_endian(bytes, 3, 3) != 0x9D012A) {
    return corrupt("its WebP header is damaged");
  }
  shape.width = static_cast<std::int32_t>(little_endian(bytes, 6, 2) & 0x3FFF);
  shape.height = static_cast<std::int32_t>(little_endian(bytes, 8, 2) & 0x3FFF);
  return {};
}

Status read_vp8l(HeaderWindow& window, const WebpChunk& chunk, PartShape& shape) {
  ISOCOST_ASSIGN(const ByteView bytes, window.all(chunk.at + 8, 5, "its WebP header"));
  if (bytes[0] != 0x2F) return corrupt("its WebP header is damaged");
  const std::uint64_t bits = little_endian(bytes, 1, 4);
  shape.width = static_cast<std::int32_t>(1 + (bits & 0x3FFF));
  shape.height = static_cast<std::int32_t>(1 + ((bits >> 14) & 0x3FFF));
  return {};
}

Status read_vp8x(HeaderWindow& window, const WebpChunk& chunk, std::int64_t end, PartShape& shape) {
  constexpr std::uint8_t kHasXmp = 0x04;
  constexpr std::uint8_t kHasExif = 0x08;
  ISOCOST_ASSIGN(const ByteView bytes, window.all(chunk.at + 8, 10, "its WebP header"));
  const std::uint8_t flags = bytes[0];
  shape.width = static_cast<std::int32_t>(1 + little_endian(bytes, 4, 3));
  shape.height = static_cast<std::int32_t>(1 + little_endian(bytes, 7, 3));
  const bool has_tags = (flags & (kHasExif | kHasXmp)) != 0;
  constexpr int kMaxChunks = 100'000;
  OrientationTags tags;
  WebpChunk next{chunk.next(), 0};
  for (int i = 0; has_tags && i < kMaxChunks && next.at + 8 <= end; ++i) {
    ISOCOST_ASSIGN(const ByteView head, window.all(next.at, 8, "a WebP chunk"));
    next.body = static_cast<std::int64_t>(little_endian(head, 4, 4));
    const bool is_exif = (flags & kHasExif) != 0 && has_tag(head, 0, "EXIF");
    const bool is_xmp = (flags & kHasXmp) != 0 && has_tag(head, 0, "XMP ");
    const std::int64_t data = next.at + 8;
    if (is_exif) {
      ISOCOST_ASSIGN(tags.exif, exif_orientation(window, data, data + next.body));
    } else if (is_xmp) {
      ISOCOST_ASSIGN(tags.xmp, xmp_orientation(window, data, data + next.body));
    }
    if (tags.exif) break;
    next.at = next.next();
  }
  shape.orientation = tags.orientation();
  return {};
}

}  // namespace

Result<PartShape> read_webp_header(HeaderWindow& window, std::int64_t /*max_pixels*/) {
  ISOCOST_ASSIGN(const ByteView bytes, window.all(0, 20, "its WebP header"));
  const auto riff_end = static_cast<std::int64_t>(8 + little_endian(bytes, 4, 4));
  if (riff_end > window.size()) {
    return corrupt("cut off: its header says " + std::to_string(riff_end) + " bytes, " +
                   std::to_string(window.size()) + " are there");
  }
  const WebpChunk chunk{12, static_cast<std::int64_t>(little_endian(bytes, 16, 4))};
  if (chunk.at + 8 + chunk.body > riff_end) {
    return corrupt("it has a WebP chunk of an impossible length");
  }
  const bool lossy = has_tag(bytes, 12, "VP8 ");
  const bool lossless = has_tag(bytes, 12, "VP8L");
  const bool extended = has_tag(bytes, 12, "VP8X");
  PartShape shape;
  if (lossy) ISOCOST_TRY(read_vp8(window, chunk, shape));
  if (lossless) ISOCOST_TRY(read_vp8l(window, chunk, shape));
  if (extended) ISOCOST_TRY(read_vp8x(window, chunk, riff_end, shape));
  if (!lossy && !lossless && !extended) return corrupt("it has no WebP picture");
  return shape;
}

}  // namespace isocost
