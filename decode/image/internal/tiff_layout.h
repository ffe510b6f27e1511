#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/bytes/header_window.h"

namespace isocost {

enum class TiffColours : std::uint8_t { kGrey, kInvertedGrey, kPalette, kRgb, kCmyk, kYcc };
enum class TiffAlpha : std::uint8_t { kNone, kStraight, kPremultiplied };

/// How the first picture of a TIFF is stored, according to its directory.
struct TiffLayout {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::int32_t bits = 1;     ///< Bits of a sample: 1, 2, 4, 8 or 16.
  std::int32_t samples = 1;  ///< Samples of a pixel, those included that mean nothing: 1 to 6.
  TiffColours colours = TiffColours::kGrey;
  TiffAlpha alpha = TiffAlpha::kNone;
  bool is_jpeg = false;
  bool is_separate = false;  ///< Whether each sample has a plane of its own.
  bool is_tiled = false;
  std::int32_t block_width = 0;  ///< Sides of a tile, or of a strip.
  std::int32_t block_height = 0;
  std::uint8_t orientation = 1;

  /// Returns the samples of a pixel that its colour and opacity need, which come first.
  std::int32_t kept() const;
  /// Returns the bytes of a row of a tile or strip, in one plane.
  std::int64_t block_row_bytes() const;
  /// Returns the bytes that the decoder takes for each pixel, rounded up.
  std::int64_t decoder_bytes() const;
};

/// Reads the header and the first directory of a TIFF or BigTIFF. Kinds that Pillow reads as 8 or
/// 16 bits are read, with no compression, CCITT's, LZW, Deflate, PackBits or JPEG. Errors:
/// kCorrupt; kUnsupported for other kinds; kIo.
Result<TiffLayout> read_tiff_layout(HeaderWindow& window);

}  // namespace isocost
