#include "decode/image/internal/tiff_colours.h"

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/tiff_layout.h"
#include "decode/image/internal/unpremultiply.h"
#include "decode/shape/recipe_options.h"

namespace isocost {
namespace {

bool is_grey(TiffColours colours) {
  return colours == TiffColours::kGrey || colours == TiffColours::kInvertedGrey;
}

void unpack_bits(const TiffLayout& layout, ByteView row, std::span<std::uint8_t> to,
                 std::size_t step) {
  const auto bits = static_cast<unsigned>(layout.bits);
  const unsigned most = (1U << bits) - 1;
  const unsigned scale = is_grey(layout.colours) ? 255U / most : 1U;
  const std::size_t pixels = (to.size() + step - 1) / step;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::size_t bit = i * bits;
    const unsigned value = (unsigned{row[bit / 8]} >> (8 - bits - bit % 8)) & most;
    to[i * step] = static_cast<std::uint8_t>(value * scale);
  }
}

// Returns the 8 bits that Pillow has of 16. Samples have the byte order of this machine.
std::uint8_t reduced(const TiffLayout& layout, ByteView row, std::size_t sample) {
  std::uint16_t value = 0;
  std::memcpy(&value, row.data() + 2 * sample, sizeof value);
  if (is_grey(layout.colours)) return static_cast<std::uint8_t>(std::min<unsigned>(value, 255));
  return static_cast<std::uint8_t>(value >> 8);
}

// Puts the colours of a palette in the place of indices.
void look_up(std::span<const std::uint8_t> stored, std::size_t kept,
             std::span<const std::uint8_t> palette, std::span<std::uint8_t> to, std::size_t step) {
  for (std::size_t i = 0; i * kept < stored.size(); ++i) {
    std::memcpy(&to[i * step], &palette[std::size_t{3} * stored[i * kept]], 3);
  }
}

void repeat_grey(std::span<const std::uint8_t> stored, std::size_t kept, std::span<std::uint8_t> to,
                 std::size_t step) {
  for (std::size_t i = 0; i * kept < stored.size(); ++i) {
    std::fill_n(&to[i * step], 3, stored[i * kept]);
  }
}

// Makes RGB of CMYK in place, as Pillow does, and drops the last quarter.
void make_rgb_of_cmyk(std::vector<std::uint8_t>& pixels) {
  const std::size_t count = pixels.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned light = 255U - pixels[4 * i + 3];
    std::array<std::uint8_t, 3> rgb{};
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned product = pixels[4 * i + c] * light + 128U;
      const unsigned ink = ((product >> 8) + product) >> 8;  // the product by 255, rounded
      rgb.at(c) = static_cast<std::uint8_t>(light - ink);
    }
    std::ranges::copy(rgb, pixels.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
  pixels.resize(3 * count);
}

}  // namespace

void unpack_tiff_row(const TiffLayout& layout, ByteView row, std::size_t samples, std::size_t kept,
                     std::span<std::uint8_t> to, std::size_t step) {
  if (layout.bits < 8) {
    unpack_bits(layout, row, to, step);
  } else {
    const std::size_t pixels = (to.size() + step - 1) / step;
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t s = 0; s < kept; ++s) {
        const std::size_t sample = i * samples + s;
        to[i * step + s] = layout.bits == 8 ? row[sample] : reduced(layout, row, sample);
      }
    }
  }
  if (layout.colours == TiffColours::kInvertedGrey && layout.bits < 16) {
    for (std::uint8_t& value : to) value = static_cast<std::uint8_t>(255 - value);
  }
}

Result<std::vector<std::uint8_t>> read_tiff_palette(::tiff* tiff, const TiffLayout& layout) {
  std::array<std::uint16_t*, 3> colours{};
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &colours[0], &colours[1], &colours[2]) != 1) {
    return corrupt("its TIFF has no palette");
  }
  const std::size_t indices = std::size_t{1} << layout.bits;
  std::vector<std::uint8_t> palette;
  palette.reserve(3 * indices);
  for (std::size_t i = 0; i < indices; ++i) {
    for (const std::uint16_t* colour : colours) {
      palette.push_back(static_cast<std::uint8_t>(colour[i] >> 8));
    }
  }
  return palette;
}

std::vector<std::uint8_t> tiff_rgb(const TiffLayout& layout, std::vector<std::uint8_t> stored,
                                   std::span<const std::uint8_t> palette, Alpha alpha) {
  const auto kept = static_cast<std::size_t>(layout.kept());
  const bool has_alpha = layout.alpha != TiffAlpha::kNone;
  if (layout.colours == TiffColours::kCmyk) {
    make_rgb_of_cmyk(stored);
    return stored;
  }
  if (is_grey(layout.colours) || layout.colours == TiffColours::kPalette) {
    const std::size_t step = has_alpha ? 4 : 3;
    std::vector<std::uint8_t> pixels(stored.size() / kept * step);
    if (layout.colours == TiffColours::kPalette) {
      look_up(stored, kept, palette, pixels, step);
    } else {
      repeat_grey(stored, kept, pixels, step);
    }
    for (std::size_t i = 0; has_alpha && i * 4 < pixels.size(); ++i) {
      pixels[4 * i + 3] = stored[2 * i + 1];
    }
    stored = std::move(pixels);
  }
  if (layout.alpha == TiffAlpha::kPremultiplied) unpremultiply(stored);
  if (has_alpha) make_opaque(stored, alpha);
  return stored;
}

}  // namespace isocost
