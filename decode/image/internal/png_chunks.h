#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "decode/bytes/media_bytes.h"

namespace isocost {

/// The chunks of a PNG that its pixels depend on, as views of the file. Texts, profiles and other
/// chunks do not count, and neither does anything after the pixels.
struct PngChunks {
  ByteView header;                ///< Data of IHDR, 13 bytes.
  std::vector<ByteView> colours;  ///< Whole chunks PLTE and tRNS before the pixels, in their order.
  std::vector<ByteView> pixels;   ///< Data of the consecutive chunks IDAT.
  std::size_t deflated = 0;       ///< Bytes in `pixels`.
  bool cut = false;               ///< Whether the file ends within the last of `pixels`.
};

/// Returns the chunks of a file; nothing if it has no header with a right CRC, or its chunks
/// cannot be followed to the first of its pixels. CRCs of pixels are not checked: the stream in
/// them has a checksum of its own.
std::optional<PngChunks> find_png_chunks(ByteView file);

/// Returns the signature of a PNG and these chunks. `header` has 13 bytes.
std::vector<std::uint8_t> png_head(ByteView header, const std::vector<ByteView>& colours);

/// Appends a chunk of this type, which has four letters, with its data in pieces.
void append_png_chunk(std::vector<std::uint8_t>& to, std::string_view type,
                      const std::vector<ByteView>& data);

/// Returns a PNG file of these chunks and no others. `header` has 13 bytes; `pixels` have less than
/// 2^31 together, and become one chunk.
std::vector<std::uint8_t> png_file(ByteView header, const std::vector<ByteView>& colours,
                                   const std::vector<ByteView>& pixels);

}  // namespace isocost
