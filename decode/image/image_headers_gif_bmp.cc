// Reads headers of GIF (its 89a specification) and BMP.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_headers.h"
#include "decode/image/internal/bmp_layout.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

/// Returns the offset after a chain of sub-blocks.
Result<std::int64_t> skip_sub_blocks(HeaderWindow& window, std::int64_t at) {
  for (;;) {
    ISOCOST_ASSIGN(const ByteView length, window.all(at, 1, "its GIF blocks"));
    at += 1 + length[0];
    if (length[0] == 0) return at;
  }
}

/// Returns the offset of the first picture, which follows the colours and extensions.
Result<std::int64_t> find_gif_picture(HeaderWindow& window, std::int64_t at) {
  constexpr int kMostBetween = 4096;
  for (int between = 0; between < kMostBetween;) {
    ISOCOST_ASSIGN(const ByteView kind, window.all(at, 1, "its GIF blocks, before a picture"));
    if (kind[0] == 0x2C) return at;
    if (kind[0] == 0x3B) return corrupt("it has no picture");
    if (kind[0] == 0x21) {
      ISOCOST_ASSIGN(at, skip_sub_blocks(window, at + 2));
    } else {
      ++at;  // Pillow passes over bytes between blocks.
      ++between;
    }
  }
  return corrupt("its GIF blocks are damaged");
}

}  // namespace

Result<PartShape> read_gif_header(HeaderWindow& window, std::int64_t /*max_pixels*/) {
  ISOCOST_ASSIGN(const ByteView bytes, window.all(0, 13, "its GIF header"));
  PartShape shape;
  shape.width = static_cast<std::int32_t>(little_endian(bytes, 6, 2));
  shape.height = static_cast<std::int32_t>(little_endian(bytes, 8, 2));
  const bool colours = (bytes[10] & 0x80) != 0;
  const std::int64_t table = colours ? std::int64_t{3} << ((bytes[10] & 7) + 1) : 0;
  ISOCOST_ASSIGN(const std::int64_t at, find_gif_picture(window, 13 + table));
  ISOCOST_ASSIGN(const ByteView picture, window.all(at, 9, "its GIF picture"));
  // A picture that leaves its canvas makes it larger, as in Pillow.
  const auto side = [&](std::size_t offset, std::int32_t canvas) {
    const std::uint64_t end =
        little_endian(picture, offset, 2) + little_endian(picture, offset + 4, 2);
    return std::max(canvas, static_cast<std::int32_t>(end));
  };
  shape.width = side(1, shape.width);
  shape.height = side(3, shape.height);
  return shape;
}

Result<PartShape> read_bmp_header(HeaderWindow& window, std::int64_t /*max_pixels*/) {
  ISOCOST_ASSIGN(const ByteView head, window.some(0, BmpLayout::kBytes));
  ISOCOST_ASSIGN(const BmpLayout layout, BmpLayout::read(head));
  if (layout.width <= 0 || layout.height == 0 || layout.height == INT32_MIN) {
    return corrupt("its BMP header says an impossible size");
  }
  PartShape shape;
  shape.width = static_cast<std::int32_t>(layout.width);
  shape.height = static_cast<std::int32_t>(std::abs(layout.height));
  return shape;
}

}  // namespace isocost
