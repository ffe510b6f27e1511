#include <spng.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "base/result.h"
#include "decode/internal/image_codecs.h"
#include "decode/internal/media_bytes.h"

namespace isocost {
namespace {

struct FreeSpng {
  void operator()(spng_ctx* png) const { spng_ctx_free(png); }
};

Error not_decoded(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  return corrupt(std::string("its PNG does not decode: ") + spng_strerror(code));
}

Status configure(spng_ctx* png, ByteView file) {
  constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // texts and profiles, none of it kept
  spng_set_crc_action(png, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_chunk_limits(png, kChunkBytes, kChunkBytes);
  const int code = spng_set_png_buffer(png, file.data(), file.size());
  return code == 0 ? Status() : Status(not_decoded(code));
}

}  // namespace

Result<Pixels> decode_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha) {
  const std::unique_ptr<spng_ctx, FreeSpng> png(spng_ctx_new(0));
  if (!png) return Error(ErrorCode::kInternal, "libspng does not start");
  ISOCOST_TRY(configure(png.get(), file));
  spng_ihdr header{};
  if (const int code = spng_get_ihdr(png.get(), &header); code != 0) return not_decoded(code);
  if (header.width != static_cast<std::uint32_t>(width) ||
      header.height != static_cast<std::uint32_t>(height)) {
    return corrupt("its PNG header has changed since it was probed");
  }
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, 4));
  Pixels pixels{width, height, {}};
  pixels.rgb.resize(bytes);
  const int code =
      spng_decode_image(png.get(), pixels.rgb.data(), bytes, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS);
  if (code != 0) return not_decoded(code);
  if (const int end = spng_decode_chunks(png.get()); end != 0) return not_decoded(end);
  make_opaque(pixels.rgb, alpha);
  return pixels;
}

}  // namespace isocost
