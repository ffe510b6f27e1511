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
#include "decode/image/internal/truncated_png.h"

namespace isocost {
namespace {

Error not_decoded(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  return corrupt(std::string("its PNG does not decode: ") + spng_strerror(code));
}

Result<SpngContext> new_context() {
  SpngContext png(spng_ctx_new(0));
  if (!png) return Error(ErrorCode::kInternal, "libspng does not start");
  return png;
}

// Reads the header of the PNG that the context is to decode.
Status check_header(spng_ctx* png, std::int32_t width, std::int32_t height) {
  spng_ihdr header{};
  if (const int code = spng_get_ihdr(png, &header); code != 0) return not_decoded(code);
  if (std::cmp_not_equal(header.width, width) || std::cmp_not_equal(header.height, height)) {
    return corrupt("its PNG header has changed since it was probed");
  }
  return {};
}

// Returns the file with the chunks that its pixels depend on: others are no limits of the picture,
// and libspng never sees them.
std::vector<std::uint8_t> needed_chunks(const PngChunks& chunks) {
  return png_file(chunks.header, chunks.colours, chunks.pixels);
}

int read_truncated(spng_ctx* /*png*/, void* from, void* to, std::size_t bytes) {
  auto* file = static_cast<TruncatedPng*>(from);
  return file->read({static_cast<std::uint8_t*>(to), bytes}) ? 0 : SPNG_IO_EOF;
}

// Decodes the picture of a context that has read its header.
Result<Pixels> decode_rgba(spng_ctx* png, std::int32_t width, std::int32_t height, Alpha alpha) {
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, 4));
  Pixels pixels{width, height, {}};
  pixels.rgb.resize(bytes);
  const int code =
      spng_decode_image(png, pixels.rgb.data(), bytes, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS);
  if (code != 0) return not_decoded(code);
  make_opaque(pixels.rgb, alpha);
  return pixels;
}

}  // namespace

Result<Pixels> decode_png(ByteView file, std::int32_t width, std::int32_t height,
                          const ImageDecoding& how, const DecodeLimit& /*limit*/) {
  if (auto pixels = decode_plain_png(file, width, height, how.alpha)) return std::move(*pixels);
  auto pixels = decode_any_png(file, width, height, how.alpha);
  if (pixels || how.truncated == Truncated::kBad || pixels.error().code() != ErrorCode::kCorrupt) {
    return pixels;
  }
  return decode_truncated_png(file, width, height, how.alpha);
}

Result<Pixels> decode_any_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha) {
  const auto chunks = find_png_chunks(file);
  if (!chunks) return corrupt("its PNG is damaged before its pixels");
  const std::vector<std::uint8_t> needed = needed_chunks(*chunks);
  ISOCOST_ASSIGN(const SpngContext png, new_context());
  if (const int code = begin_png(png.get(), needed); code != 0) return not_decoded(code);
  ISOCOST_TRY(check_header(png.get(), width, height));
  const std::size_t bits = png_channels(chunks->header[9]) * chunks->header[8];  // per pixel
  const std::size_t pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  if (pixels * bits / 8 > most_inflated_bytes(chunks->deflated)) {
    return corrupt("its PNG is cut off: so few bytes hold no picture of its size");
  }
  auto decoded = decode_rgba(png.get(), width, height, alpha);
  if (!decoded && chunks->cut) return corrupt("its PNG is cut off within its pixels");
  return decoded;
}

Result<Pixels> decode_truncated_png(ByteView file, std::int32_t width, std::int32_t height,
                                    Alpha alpha) {
  auto chunks = find_png_chunks(file);
  if (!chunks) return corrupt("its PNG is damaged before its pixels");
  TruncatedPng whole(*std::move(chunks));
  ISOCOST_ASSIGN(const SpngContext png, new_context());
  const int code = spng_set_png_stream(png.get(), read_truncated, &whole);
  if (code != 0) return not_decoded(code);
  ISOCOST_TRY(check_header(png.get(), width, height));
  return decode_rgba(png.get(), width, height, alpha);
}

std::int64_t png_decoding_bytes(const PartShape& shape, std::int32_t /*divisor*/) {
  // Counts the chunks put together; RGBA with filters, or RGBA; rows of 16 bits.
  const std::int64_t pixels = std::int64_t{shape.width} * shape.height;
  return shape.encoded_bytes + pixels * 4 + (std::int64_t{shape.width} + shape.height) * 8 * 4;
}

}  // namespace isocost
