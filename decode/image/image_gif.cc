// Decodes the first picture of a GIF, laid on its canvas, according to the 89a specification.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/gif_lzw.h"

namespace isocost {
namespace {

constexpr std::size_t kScreenBytes = 13;
constexpr std::size_t kPictureBytes = 10;

struct GifPicture {
  std::size_t left = 0, top = 0, width = 0, height = 0;
  ByteView colours;  ///< RGB; empty where an index is a shade of grey.
  std::optional<std::uint8_t> transparent;
  bool interlaced = false;
  int literal_bits = 0;
  std::size_t data = 0;  ///< Offset of its sub-blocks.
};

/// Returns the bytes of a colour table, by the flags of the block before it.
std::size_t table_bytes(std::uint8_t flags) {
  return (flags & 0x80) != 0 ? std::size_t{3} << ((flags & 7) + 1) : 0;
}

/// Returns whether a table only says of each index that it is that shade of grey. Pillow then does
/// without it, also for indices beyond its end.
bool is_grey_ramp(ByteView colours) {
  for (std::size_t i = 0; i < colours.size(); ++i) {
    if (colours[i] != i / 3) return false;
  }
  return true;
}

/// Returns the block at `at`, which must have `n` bytes.
Result<ByteView> block(ByteView file, std::size_t at, std::size_t n) {
  if (at > file.size() || file.size() - at < n) return corrupt("its GIF picture is cut off");
  return file.subspan(at, n);
}

Result<std::size_t> skip_extension(ByteView file, std::size_t at) {
  at += 2;
  for (;;) {
    ISOCOST_ASSIGN(const ByteView length, block(file, at, 1));
    at += std::size_t{1} + length[0];
    if (length[0] == 0) return at;
  }
}

Result<GifPicture> read_picture(ByteView file, std::size_t at, GifPicture picture) {
  ISOCOST_ASSIGN(const ByteView head, block(file, at, kPictureBytes));
  picture.left = little_endian(head, 1, 2);
  picture.top = little_endian(head, 3, 2);
  picture.width = little_endian(head, 5, 2);
  picture.height = little_endian(head, 7, 2);
  picture.interlaced = (head[9] & 0x40) != 0;
  const std::size_t colours = table_bytes(head[9]);
  if (colours > 0) {
    ISOCOST_ASSIGN(picture.colours, block(file, at + kPictureBytes, colours));
  }
  ISOCOST_ASSIGN(const ByteView bits, block(file, at + kPictureBytes + colours, 1));
  picture.literal_bits = bits[0];
  picture.data = at + kPictureBytes + colours + 1;
  if (is_grey_ramp(picture.colours)) picture.colours = {};
  if (picture.literal_bits > GifLzw::kMaxBits) {
    return corrupt("its GIF codes begin at " + std::to_string(picture.literal_bits) +
                   " bits, where 12 are possible");
  }
  return picture;
}

Result<GifPicture> find_picture(ByteView file) {
  ISOCOST_ASSIGN(const ByteView screen, block(file, 0, kScreenBytes));
  GifPicture picture;
  const std::size_t colours = table_bytes(screen[10]);
  ISOCOST_ASSIGN(picture.colours, block(file, kScreenBytes, colours));
  std::size_t at = kScreenBytes + colours;
  for (;;) {
    ISOCOST_ASSIGN(const ByteView kind, block(file, at, 1));
    if (kind[0] == 0x2C) return read_picture(file, at, picture);
    if (kind[0] == 0x3B) return corrupt("it has no picture");
    if (kind[0] != 0x21) {  // Pillow passes over bytes between blocks.
      ++at;
      continue;
    }
    ISOCOST_ASSIGN(const ByteView label, block(file, at, 2));
    if (label[1] == 0xF9) {  // graphic control
      ISOCOST_ASSIGN(const ByteView control, block(file, at, 8));
      if ((control[3] & 1) != 0) picture.transparent = control[6];
    }
    ISOCOST_ASSIGN(at, skip_extension(file, at));
  }
}

/// Returns the row of the picture for each row of the stream: interlaced pictures come in four
/// passes.
std::vector<std::size_t> row_order(std::size_t height, bool interlaced) {
  struct Pass {
    std::size_t first, step;
  };
  constexpr std::array<Pass, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  std::vector<std::size_t> order;
  order.reserve(height);
  if (!interlaced) {
    for (std::size_t y = 0; y < height; ++y) order.push_back(y);
    return order;
  }
  for (const Pass& pass : kPasses) {
    for (std::size_t y = pass.first; y < height; y += pass.step) order.push_back(y);
  }
  return order;
}

using Colour = std::array<std::uint8_t, 3>;

Colour colour_of(const GifPicture& picture, std::uint8_t index) {
  if (picture.transparent == index) return {255, 255, 255};
  if (picture.colours.empty()) return {index, index, index};
  const std::size_t at = std::size_t{3} * index;
  if (at + 3 > picture.colours.size()) return {};  // unknown colours show as black
  return {picture.colours[at], picture.colours[at + 1], picture.colours[at + 2]};
}

void paint(const GifPicture& picture, std::span<const std::uint8_t> indices, Pixels& canvas) {
  const auto order = row_order(picture.height, picture.interlaced);
  const auto canvas_width = static_cast<std::size_t>(canvas.width);
  for (std::size_t y = 0; y < picture.height; ++y) {
    const auto row = indices.subspan(y * picture.width, picture.width);
    std::uint8_t* to = &canvas.rgb[3 * ((picture.top + order[y]) * canvas_width + picture.left)];
    for (const std::uint8_t index : row) {
      const Colour colour = colour_of(picture, index);
      to = std::ranges::copy(colour, to).out;
    }
  }
}

// Returns the colour indices of the picture; the background's after the end of the stream where
// truncated pictures are accepted.
Result<std::vector<std::uint8_t>> read_indices(ByteView file, const GifPicture& picture,
                                               std::uint8_t background, Truncated truncated) {
  std::vector<std::uint8_t> indices(picture.width * picture.height);
  GifLzw stream(file, picture.data, picture.literal_bits);
  auto filled = stream.fill(indices);
  if (filled) return indices;
  if (truncated == Truncated::kBad) return std::move(filled).error();
  std::ranges::fill(std::span(indices).subspan(stream.filled()), background);
  return indices;
}

}  // namespace

Result<Pixels> decode_gif(ByteView file, std::int32_t width, std::int32_t height,
                          const ImageDecoding& how, const DecodeLimit& /*limit*/) {
  ISOCOST_ASSIGN(const ByteView screen, block(file, 0, kScreenBytes));
  ISOCOST_ASSIGN(GifPicture picture, find_picture(file));
  // A picture that leaves its canvas makes it larger, as in Pillow.
  const auto canvas_width =
      std::max(little_endian(screen, 6, 2), std::uint64_t{picture.left} + picture.width);
  const auto canvas_height =
      std::max(little_endian(screen, 8, 2), std::uint64_t{picture.top} + picture.height);
  if (std::cmp_not_equal(canvas_width, width) || std::cmp_not_equal(canvas_height, height)) {
    return corrupt("its GIF header has changed since it was probed");
  }
  // Pillow begins with a canvas of the transparent colour, or else of the first one.
  const std::uint8_t background = picture.transparent.value_or(0);
  if (how.alpha == Alpha::kDrop) picture.transparent.reset();
  if (picture.width == 0 || picture.height == 0) return corrupt("its GIF picture has no size");
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, 3));
  Pixels canvas{width, height, {}};
  canvas.rgb.reserve(bytes);
  const Colour empty = colour_of(picture, background);
  while (canvas.rgb.size() < bytes) {
    canvas.rgb.insert(canvas.rgb.end(), empty.begin(), empty.end());
  }
  ISOCOST_ASSIGN(const auto indices, read_indices(file, picture, background, how.truncated));
  paint(picture, indices, canvas);
  return canvas;
}

std::int64_t gif_decoding_bytes(const PartShape& shape, std::int32_t /*divisor*/) {
  return std::int64_t{shape.width} * shape.height * (3 + 1);  // RGB and colour indices
}

}  // namespace isocost
