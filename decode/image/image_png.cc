#include <spng.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/plain_png.h"
#include "decode/image/internal/png_chunks.h"
#include "decode/image/internal/spng_context.h"

namespace isocost {
namespace {

Error not_decoded(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  return corrupt(std::string("its PNG does not decode: ") + spng_strerror(code));
}

}  // namespace

Result<Pixels> decode_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha) {
  if (auto pixels = decode_plain_png(file, width, height, alpha)) return std::move(*pixels);
  return decode_any_png(file, width, height, alpha);
}

Result<Pixels> decode_any_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha) {
  const auto chunks = find_png_chunks(file);
  if (!chunks) return corrupt("its PNG is damaged before its pixels");
  // Other chunks are no limits of the picture: libspng never sees them.
  const std::vector<std::uint8_t> needed =
      png_file(chunks->header, chunks->colours, chunks->pixels);
  const SpngContext png(spng_ctx_new(0));
  if (!png) return Error(ErrorCode::kInternal, "libspng does not start");
  if (const int code = begin_png(png.get(), needed); code != 0) return not_decoded(code);
  spng_ihdr header{};
  if (const int code = spng_get_ihdr(png.get(), &header); code != 0) return not_decoded(code);
  if (header.width != static_cast<std::uint32_t>(width) ||
      header.height != static_cast<std::uint32_t>(height)) {
    return corrupt("its PNG header has changed since it was probed");
  }
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, 4));
  const std::size_t bits = png_channels(header.color_type) * header.bit_depth;  // per pixel
  if (bytes / 4 * bits / 8 > most_inflated_bytes(chunks->deflated)) {
    return corrupt("its PNG is cut off: so few bytes hold no picture of its size");
  }
  Pixels pixels{width, height, {}};
  pixels.rgb.resize(bytes);
  const int code =
      spng_decode_image(png.get(), pixels.rgb.data(), bytes, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS);
  if (code != 0 && chunks->cut) return corrupt("its PNG is cut off within its pixels");
  if (code != 0) return not_decoded(code);
  make_opaque(pixels.rgb, alpha);
  return pixels;
}

}  // namespace isocost
