#include "decode/image/internal/plain_png.h"

#include <libdeflate.h>
#include <spng.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "decode/image/image_codecs.h"
#include "decode/image/internal/inflater.h"
#include "decode/image/internal/png_chunks.h"
#include "decode/image/internal/png_rows.h"
#include "decode/image/internal/spng_context.h"

namespace isocost {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kWidest = std::size_t{1} << 28;  // libspng refuses rows of 2^32 bytes

struct Header {
  std::size_t width = 0;
  std::size_t height = 0;
  std::uint8_t colour_type = 0;

  std::size_t channels() const { return png_channels(colour_type); }
  std::size_t row_bytes() const { return width * channels(); }
  std::size_t inflated_bytes() const { return height * (1 + row_bytes()); }
};

bool is_plain(std::uint8_t colour_type) {
  return colour_type == SPNG_COLOR_TYPE_GRAYSCALE || colour_type == SPNG_COLOR_TYPE_TRUECOLOR ||
         colour_type == SPNG_COLOR_TYPE_INDEXED || colour_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
         colour_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
}

// Returns the header of a plain picture: 8 bits, deflate, the five filters, and no interlacing.
std::optional<Header> plain_header(ByteView data) {
  const Header header{big_endian(data, 0, 4), big_endian(data, 4, 4), data[9]};
  const bool plain = data[8] == 8 && big_endian(data, 10, 3) == 0 && is_plain(header.colour_type) &&
                     header.width <= kWidest;
  return plain ? std::optional(header) : std::nullopt;
}

void append_number(Bytes& to, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<std::uint8_t>(number >> shift));
}

// Returns a pixel of zeros and its filter as a zlib stream of one stored block.
Bytes one_pixel(std::size_t channels) {
  constexpr std::size_t kHead = 7;  // headers of the stream and of the block
  const std::size_t size = 1 + channels;
  Bytes stream(kHead + size);
  stream[0] = 0x78;
  stream[1] = 0x01;
  stream[2] = 0x01;
  stream[3] = static_cast<std::uint8_t>(size);
  stream[5] = static_cast<std::uint8_t>(~size);
  stream[6] = 0xFF;
  append_number(stream, libdeflate_adler32(1, &stream[kHead], size));
  return stream;
}

// Returns a file with the colours of the picture and one pixel.
Bytes with_one_pixel(const Header& header, const PngChunks& chunks) {
  Bytes ihdr;
  append_number(ihdr, 1);
  append_number(ihdr, 1);
  ihdr.insert(ihdr.end(), chunks.header.begin() + 8, chunks.header.end());
  const Bytes pixel = one_pixel(header.channels());
  return png_file(ihdr, chunks.colours, {pixel});
}

// Colours of palette indexes, or of grey values; the fourth byte of each is ignored.
using Colours = std::array<std::uint8_t, std::size_t{4} * 256>;

Colours greys() {
  Colours colours{};
  for (std::size_t i = 0; i < colours.size(); ++i) colours[i] = static_cast<std::uint8_t>(i / 4);
  return colours;
}

Colours palette(spng_ctx* png, bool transparent, const spng_trns& alphas, Alpha alpha) {
  spng_plte entries{};
  spng_get_plte(png, &entries);
  Colours colours{};
  for (std::size_t i = 0; i < 256; ++i) {
    const spng_plte_entry& entry = entries.entries[i];
    const bool listed = transparent && i < alphas.n_type3_entries;
    const std::array<std::uint8_t, 4> rgba = {entry.red, entry.green, entry.blue,
                                              listed ? alphas.type3_alpha[i] : std::uint8_t{255}};
    if (alpha == Alpha::kDrop) {
      std::memcpy(&colours[4 * i], rgba.data(), 3);
    } else {
      portable_png_kernels().on_white(rgba.data(), 1, &colours[4 * i]);
    }
  }
  return colours;
}

// Lets libspng read the chunks of colours. Returns nothing if it finds a fault or a colour key.
std::optional<Colours> read_colours(const Header& header, const PngChunks& chunks, Alpha alpha) {
  const Bytes small = with_one_pixel(header, chunks);
  const SpngContext png(spng_ctx_new(0));
  if (!png || begin_png(png.get(), small) != 0) return std::nullopt;
  spng_trns alphas{};
  const bool transparent = spng_get_trns(png.get(), &alphas) == 0;
  const bool indexed = header.colour_type == SPNG_COLOR_TYPE_INDEXED;
  if (transparent && !indexed) return std::nullopt;
  const Colours colours = indexed ? palette(png.get(), transparent, alphas, alpha) : greys();
  std::array<std::uint8_t, 4> pixel{};
  const bool right =
      spng_decode_image(png.get(), pixel.data(), pixel.size(), SPNG_FMT_RGBA8, 0) == 0 &&
      spng_decode_chunks(png.get()) == 0;
  return right ? std::optional(colours) : std::nullopt;
}

// Returns the data of one chunk in place; that of several chunks is put together in `joined`.
ByteView deflated(const PngChunks& chunks, Bytes& joined) {
  if (chunks.pixels.size() == 1) return chunks.pixels.front();
  joined.reserve(chunks.deflated);
  for (const ByteView piece : chunks.pixels) {
    joined.insert(joined.end(), piece.begin(), piece.end());
  }
  return joined;
}

// Returns whether the stream makes exactly `size` bytes. Ignores bytes after it in its chunk.
bool inflate_to(const PngChunks& chunks, std::uint8_t* to, std::size_t size) {
  Bytes joined;
  const ByteView stream = deflated(chunks, joined);
  const Inflater inflater = make_inflater();
  return libdeflate_zlib_decompress(inflater.get(), stream.data(), stream.size(), to, size,
                                    nullptr) == LIBDEFLATE_SUCCESS;
}

// Converts rows in other formats to packed RGB.
class RowConverter {
 public:
  RowConverter(const Header& header, const Colours& colours, Alpha alpha)
      : header_(header), colours_(colours), alpha_(alpha) {
    if (header.channels() == 2) rgba_.resize(4 * header.width + kPngRowSlack);
  }

  void convert(const std::uint8_t* row, std::uint8_t* rgb) {
    if (header_.channels() == 1) return look_up(row, rgb);
    if (header_.channels() == 2) row = spread(row);
    const PngRowKernels& kernels = fastest_png_kernels();
    (alpha_ == Alpha::kDrop ? kernels.drop_alpha : kernels.on_white)(row, header_.width, rgb);
  }

 private:
  void look_up(const std::uint8_t* row, std::uint8_t* rgb) const {
    for (std::size_t x = 0; x < header_.width; ++x) {
      std::memcpy(rgb + 3 * x, &colours_[std::size_t{4} * row[x]], 4);
    }
  }
  const std::uint8_t* spread(const std::uint8_t* grey_alpha) {
    for (std::size_t x = 0; x < header_.width; ++x) {
      std::memset(&rgba_[4 * x], grey_alpha[2 * x], 3);
      rgba_[4 * x + 3] = grey_alpha[2 * x + 1];
    }
    return rgba_.data();
  }

  const Header& header_;
  const Colours& colours_;
  Alpha alpha_;
  Bytes rgba_;
};

// Makes packed RGB, from the start of `picture`, of the rows that are inflated further back in it.
// Returns false for an unknown filter. The RGB never catches up with the rows that are still to be
// read: inflated rows end kPngRowSlack bytes before the picture's end, and begin at least as many
// after its start.
bool restore_rows(const Header& header, const Colours& colours, Alpha alpha, Bytes& picture) {
  const PngRowKernels& kernels = fastest_png_kernels();
  RowConverter converter(header, colours, alpha);
  const std::size_t bytes = header.row_bytes();
  Bytes zeros(bytes + kPngRowSlack);
  Bytes other(header.channels() == 3 ? 0 : zeros.size());
  const std::uint8_t* above = zeros.data();
  const std::uint8_t* row =
      picture.data() + picture.size() - kPngRowSlack - header.inflated_bytes();
  std::uint8_t* rgb = picture.data();
  for (std::size_t y = 0; y < header.height; ++y, row += 1 + bytes, rgb += 3 * header.width) {
    if (*row > static_cast<std::uint8_t>(PngFilter::kPaeth)) return false;
    std::uint8_t* to = header.channels() == 3 ? rgb : (y % 2 == 0 ? other : zeros).data();
    kernels.unfilter(static_cast<PngFilter>(*row), header.channels(), row + 1, above, bytes, to);
    if (header.channels() != 3) converter.convert(to, rgb);
    above = to;
  }
  return true;
}

}  // namespace

std::optional<Pixels> decode_plain_png(ByteView file, std::int32_t width, std::int32_t height,
                                       Alpha alpha) {
  const auto chunks = find_png_chunks(file);
  if (!chunks) return std::nullopt;
  const auto header = plain_header(chunks->header);
  if (!header || std::cmp_not_equal(header->width, width) ||
      std::cmp_not_equal(header->height, height) || !pixel_bytes(width, height, 4)) {
    return std::nullopt;
  }
  const auto colours = read_colours(*header, *chunks, alpha);
  if (!colours) return std::nullopt;
  // Rows are inflated to the end of the memory that will hold the picture.
  const std::size_t rgb_bytes = 3 * header->width * header->height;
  const std::size_t inflated = header->inflated_bytes();
  if (inflated > most_inflated_bytes(chunks->deflated)) return std::nullopt;
  Pixels pixels{width, height, Bytes(std::max(rgb_bytes, inflated) + 2 * kPngRowSlack)};
  std::uint8_t* rows = pixels.rgb.data() + pixels.rgb.size() - kPngRowSlack - inflated;
  if (!inflate_to(*chunks, rows, inflated)) return std::nullopt;
  if (!restore_rows(*header, *colours, alpha, pixels.rgb)) return std::nullopt;
  pixels.rgb.resize(rgb_bytes);
  return pixels;
}

}  // namespace isocost
