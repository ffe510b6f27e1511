// Reads headers of PNG (ISO/IEC 15948) and WebP (its container specification, RFC 6386 and the
// lossless format's).

#include <cstdint>
#include <string>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_headers.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

bool is_png_depth(std::uint8_t colour_type, std::uint8_t depth) {
  switch (colour_type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

/// Returns the orientation. EXIF has a chunk of its own, which writers put before the pixels.
Result<std::uint8_t> png_orientation(HeaderWindow& window, std::int64_t at) {
  constexpr std::int64_t kAround = 12;  // length and type before the data, CRC after it
  for (;;) {
    ISOCOST_ASSIGN(const ByteView head, window.all(at, 8, "its PNG chunks, before a picture"));
    const auto length = static_cast<std::int64_t>(big_endian(head, 0, 4));
    if (length > INT32_MAX) return corrupt("it has a PNG chunk of an impossible length");
    if (has_tag(head, 4, "IDAT")) return std::uint8_t{1};
    if (has_tag(head, 4, "IEND")) return corrupt("it ends before a picture");
    if (has_tag(head, 4, "eXIf")) return exif_orientation(window, at + 8, at + 8 + length);
    at += kAround + length;
  }
}

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
  constexpr std::uint8_t kHasExif = 0x08;
  ISOCOST_ASSIGN(const ByteView bytes, window.all(chunk.at + 8, 10, "its WebP header"));
  const std::uint8_t flags = bytes[0];
  shape.width = static_cast<std::int32_t>(1 + little_endian(bytes, 4, 3));
  shape.height = static_cast<std::int32_t>(1 + little_endian(bytes, 7, 3));
  constexpr int kMaxChunks = 100'000;
  WebpChunk next{chunk.next(), 0};
  for (int i = 0; (flags & kHasExif) != 0 && i < kMaxChunks && next.at + 8 <= end; ++i) {
    ISOCOST_ASSIGN(const ByteView head, window.all(next.at, 8, "a WebP chunk"));
    next.body = static_cast<std::int64_t>(little_endian(head, 4, 4));
    if (has_tag(head, 0, "EXIF")) {
      // some writers keep the name that JPEG puts before it
      ISOCOST_ASSIGN(const ByteView name, window.some(next.at + 8, 6));
      const std::int64_t begin = next.at + 8 + (has_tag(name, 0, "Exif") ? 6 : 0);
      ISOCOST_ASSIGN(shape.orientation, exif_orientation(window, begin, next.at + 8 + next.body));
      break;
    }
    next.at = next.next();
  }
  return {};
}

}  // namespace

Result<PartShape> read_png_header(HeaderWindow& window, std::int64_t max_pixels) {
  ISOCOST_ASSIGN(const ByteView bytes, window.all(8, 25, "its PNG header"));
  if (big_endian(bytes, 0, 4) != 13 || !has_tag(bytes, 4, "IHDR")) {
    return corrupt("its PNG header is damaged");
  }
  const std::uint64_t width = big_endian(bytes, 8, 4);
  const std::uint64_t height = big_endian(bytes, 12, 4);
  const bool known = bytes[18] == 0 && bytes[19] == 0 && bytes[20] <= 1;
  if (width > INT32_MAX || height > INT32_MAX || !known || !is_png_depth(bytes[17], bytes[16])) {
    return corrupt("its PNG header is damaged");
  }
  PartShape shape;
  shape.width = static_cast<std::int32_t>(width);
  shape.height = static_cast<std::int32_t>(height);
  ISOCOST_TRY(check_pixels(shape, max_pixels));
  ISOCOST_ASSIGN(shape.orientation, png_orientation(window, 33));
  return shape;
}

Result<PartShape> read_webp_header(HeaderWindow& window) {
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
