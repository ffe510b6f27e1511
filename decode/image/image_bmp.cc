// Decodes BMP as Pillow does, bit by bit.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/bmp_layout.h"
#include "decode/image/internal/bmp_runs.h"

namespace isocost {
namespace {

using Palette = std::vector<std::array<std::uint8_t, 3>>;

// Returns a colour for each index. Those beyond the palette are black.
Palette read_palette(ByteView file, const BmpLayout& layout) {
  Palette palette(std::size_t{1} << layout.bits);
  const std::size_t there = file.size() - std::min(file.size(), layout.palette_offset);
  const std::size_t entries =
      std::min({palette.size(), layout.palette_entries, there / layout.entry_bytes});
  for (std::size_t i = 0; i < entries; ++i) {
    const ByteView entry = file.subspan(layout.palette_offset + i * layout.entry_bytes, 3);
    palette[i] = {entry[2], entry[1], entry[0]};
  }
  return palette;
}

// A colour or the opacity within a pixel.
class Channel {
 public:
  explicit Channel(std::uint32_t mask)
      : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)) {
    std::uint32_t most = mask >> shift_;
    while (most > 255) {  // Channels wider than 8 bits keep their upper 8 bits.
      ++shift_;
      most >>= 1;
    }
    for (std::uint32_t i = 0; i <= most && most > 0; ++i) {
      scaled_.at(i) = static_cast<std::uint8_t>(i * 255 / most);
    }
  }

  std::uint8_t of(std::uint32_t pixel) const { return scaled_[((pixel & mask_) >> shift_) & 0xFF]; }

 private:
  std::uint32_t mask_;
  int shift_;
  std::array<std::uint8_t, 256> scaled_{};
};

void unpack_indices(const BmpLayout& layout, ByteView row, const Palette& palette,
                    std::uint8_t* to) {
  const auto bits = static_cast<std::size_t>(layout.bits);
  for (std::size_t x = 0; x < static_cast<std::size_t>(layout.width); ++x) {
    const std::size_t first = x * bits;
    const std::size_t index =
        (std::size_t{row[first / 8]} >> (8 - bits - first % 8)) & (palette.size() - 1);
    to = std::ranges::copy(palette[index], to).out;
  }
}

// Unpacks pixels of 16, 24 or 32 bits.
class PixelRows {
 public:
  explicit PixelRows(const BmpLayout& layout)
      : layout_(layout),
        channels_{Channel(layout.masks[0]), Channel(layout.masks[1]), Channel(layout.masks[2]),
                  Channel(layout.masks[3])},
        is_plain_(layout.bits >= 24 && layout.masks[0] == 0xFF0000 && layout.masks[1] == 0xFF00 &&
                  layout.masks[2] == 0xFF && layout.masks[3] == 0) {}

  std::size_t channels() const { return layout_.masks[3] == 0 ? 3 : 4; }

  void unpack(ByteView row, std::uint8_t* to) const {
    const auto bytes = static_cast<std::size_t>(layout_.bits / 8);
    const auto width = static_cast<std::size_t>(layout_.width);
    if (is_plain_) {
      for (std::size_t x = 0; x < width; ++x, to += 3) {
        to[0] = row[x * bytes + 2];
        to[1] = row[x * bytes + 1];
        to[2] = row[x * bytes];
      }
      return;
    }
    for (std::size_t x = 0; x < width; ++x) {
      const auto pixel = static_cast<std::uint32_t>(little_endian(row, x * bytes, bytes));
      for (std::size_t c = 0; c < channels(); ++c) *to++ = channels_[c].of(pixel);
    }
  }

 private:
  const BmpLayout& layout_;
  std::array<Channel, 4> channels_;
  bool is_plain_;
};

// Returns how many rows are whole; the last may lack its padding. Errors: kCorrupt if some are
// missing, unless that is accepted and the pixels have begun.
Result<std::size_t> whole_rows(ByteView file, const BmpLayout& layout, Truncated truncated) {
  const auto height = static_cast<std::size_t>(std::abs(layout.height));
  const std::uint64_t there = file.size() - std::min(file.size(), layout.data_offset);
  const std::uint64_t stride = layout.stride();
  const std::uint64_t rows = there / stride + (there % stride >= layout.row_bytes() ? 1 : 0);
  if (rows >= height) return height;
  if (truncated == Truncated::kBad) {
    return corrupt("cut off: its pixels need more than the " + std::to_string(file.size()) +
                   " bytes that are there");
  }
  constexpr std::size_t kMostBefore = std::size_t{1} << 20;  // header, masks and palette
  if (layout.data_offset > std::max(file.size(), kMostBefore) ||
      layout.palette_offset > file.size()) {
    return corrupt("cut off before its pixels");
  }
  return static_cast<std::size_t>(rows);
}

std::size_t row_in_picture(std::size_t row, const BmpLayout& layout) {
  return layout.height < 0 ? row : static_cast<std::size_t>(layout.height) - 1 - row;
}

// Makes pixels without opacity if it is 0 everywhere: their writer has set none.
void drop_absent_alpha(std::vector<std::uint8_t>& rgba, Alpha alpha) {
  bool is_absent = true;
  for (std::size_t i = 3; i < rgba.size() && is_absent; i += 4) is_absent = rgba[i] == 0;
  make_opaque(rgba, is_absent ? Alpha::kDrop : alpha);
}

Result<std::vector<std::uint8_t>> read_rows(ByteView file, const BmpLayout& layout, Alpha alpha,
                                            Truncated truncated) {
  ISOCOST_ASSIGN(const std::size_t rows, whole_rows(file, layout, truncated));
  const auto width = static_cast<std::int32_t>(layout.width);
  const auto height = static_cast<std::int32_t>(std::abs(layout.height));
  const PixelRows unpacking(layout);
  const std::size_t channels = layout.has_palette() ? 3 : unpacking.channels();
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, static_cast<int>(channels)));
  const Palette palette = layout.has_palette() ? read_palette(file, layout) : Palette();
  std::vector<std::uint8_t> pixels(bytes);
  const std::vector<std::uint8_t> zeros(layout.row_bytes());
  const std::size_t row_pixels = bytes / static_cast<std::size_t>(height);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    const ByteView row =
        y < rows ? file.subspan(layout.data_offset + y * layout.stride(), layout.row_bytes())
                 : ByteView(zeros);
    std::uint8_t* to = pixels.data() + row_in_picture(y, layout) * row_pixels;
    if (layout.has_palette()) {
      unpack_indices(layout, row, palette, to);
    } else {
      unpacking.unpack(row, to);
    }
  }
  if (channels == 4) drop_absent_alpha(pixels, alpha);
  return pixels;
}

Result<std::vector<std::uint8_t>> read_runs(ByteView file, const BmpLayout& layout) {
  const auto width = static_cast<std::size_t>(layout.width);
  const auto height = static_cast<std::size_t>(std::abs(layout.height));
  const ByteView data = file.subspan(std::min(file.size(), layout.data_offset));
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> indices, read_bmp_runs(data, layout));
  const Palette palette = read_palette(file, layout);
  std::vector<std::uint8_t> pixels(3 * indices.size());
  for (std::size_t y = 0; y < height; ++y) {
    std::uint8_t* to = pixels.data() + 3 * width * row_in_picture(y, layout);
    for (const std::uint8_t index : ByteView(indices).subspan(y * width, width)) {
      to = std::ranges::copy(palette[index & (palette.size() - 1)], to).out;
    }
  }
  return pixels;
}

}  // namespace

Result<Pixels> decode_bmp(ByteView file, std::int32_t width, std::int32_t height,
                          const ImageDecoding& how, const DecodeLimit& /*limit*/) {
  ISOCOST_ASSIGN(const BmpLayout layout,
                 BmpLayout::read(file.first(std::min(file.size(), BmpLayout::kBytes))));
  if (layout.width != width || std::abs(layout.height) != height) {
    return corrupt("its BMP header has changed since it was probed");
  }
  ISOCOST_ASSIGN(std::vector<std::uint8_t> rgb,
                 layout.has_runs() ? read_runs(file, layout)
                                   : read_rows(file, layout, how.alpha, how.truncated));
  return Pixels{width, height, std::move(rgb)};
}

std::int64_t bmp_decoding_bytes(const PartShape& shape, std::int32_t /*divisor*/) {
  // Counts RGBA, or RGB and the indices of runs; a row of zeros.
  const std::int64_t pixels = std::int64_t{shape.width} * shape.height;
  return pixels * 4 + std::int64_t{shape.width} * 4;
}

}  // namespace isocost
