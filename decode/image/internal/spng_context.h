#pragma once

#include <spng.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "decode/bytes/media_bytes.h"

namespace isocost {

struct FreeSpng {
  void operator()(spng_ctx* png) const { spng_ctx_free(png); }
};
using SpngContext = std::unique_ptr<spng_ctx, FreeSpng>;

/// Returns the stored channels of a PNG's colour type; a palette index is one.
inline std::size_t png_channels(std::uint8_t colour_type) {
  switch (colour_type) {
    case SPNG_COLOR_TYPE_TRUECOLOR:
      return 3;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return 4;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return 2;
    default:
      return 1;
  }
}

/// Begins to read `file`, which must outlive the context. CRCs of critical chunks must be right;
/// ancillary chunks with a wrong one are ignored. Returns libspng's code.
inline int begin_png(spng_ctx* png, ByteView file) {
  spng_set_crc_action(png, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  return spng_set_png_buffer(png, file.data(), file.size());
}

}  // namespace isocost
