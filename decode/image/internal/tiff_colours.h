#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/internal/tiff_layout.h"
#include "decode/shape/recipe_options.h"

struct tiff;

namespace isocost {

/// Reduces a row of samples, as libtiff returns it, to 8 bits each, as Pillow does: of 16 bits the
/// upper byte, but grey stops at 255. Grey of fewer bits is spread over 8; palette indices are not.
/// A pixel has `samples`, the first `kept` of which are written; the next one is written `step`
/// bytes later.
void unpack_tiff_row(const TiffLayout& layout, ByteView row, std::size_t samples, std::size_t kept,
                     std::span<std::uint8_t> to, std::size_t step);

/// Returns a palette as RGB, three bytes for each index. Errors: kCorrupt if there is none.
Result<std::vector<std::uint8_t>> read_tiff_palette(::tiff* tiff, const TiffLayout& layout);

/// Returns pixels of TiffLayout::kept samples of 8 bits as RGB.
std::vector<std::uint8_t> tiff_rgb(const TiffLayout& layout, std::vector<std::uint8_t> stored,
                                   std::span<const std::uint8_t> palette, Alpha alpha);

}  // namespace isocost
