#include "decode/image/image_decoder.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/checked.h"
#include "base/result.h"
#include "base/units.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/image_headers.h"
#include "decode/image/picture_codecs.h"
#include "decode/resize/orientation.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

struct Side {
  std::int32_t width = 0;
  std::int32_t height = 0;
};

Side turned(Side side, std::uint8_t orientation) {
  if (exchanges_sides(orientation)) std::swap(side.width, side.height);
  return side;
}

}  // namespace

Result<std::size_t> pixel_bytes(std::int32_t width, std::int32_t height, int channels) {
  const auto pixels = checked_product(width, height);
  const auto bytes = pixels ? checked_product(*pixels, channels) : std::nullopt;
  if (!bytes) return Error(ErrorCode::kResourceExhausted, "a picture of an impossible size");
  return static_cast<std::size_t>(*bytes);
}

void make_opaque(std::vector<std::uint8_t>& pixels, Alpha how) {
  const std::size_t count = pixels.size() / 4;
  if (how == Alpha::kDrop) {
    for (std::size_t i = 0; i < count; ++i) std::memmove(&pixels[3 * i], &pixels[4 * i], 3);
    pixels.resize(3 * count);
    return;
  }
  const std::uint8_t* from = pixels.data();
  std::uint8_t* to = pixels.data();
  for (std::size_t i = 0; i < count; ++i, from += 4, to += 3) {
    const unsigned alpha = from[3];
    const unsigned white = 255U * (255U - alpha) + 127U;
    for (std::size_t c = 0; c < 3; ++c) {
      to[c] = static_cast<std::uint8_t>((from[c] * alpha + white) / 255U);
    }
  }
  pixels.resize(3 * count);
}

Result<std::vector<std::uint8_t>> read_image(const ByteSource& source, const PartShape& shape) {
  if (source.size() != shape.encoded_bytes) {
    return corrupt("its size has changed since it was indexed");
  }
  return read_some(source, 0, static_cast<std::size_t>(source.size()));
}

Result<Pixels> decode_image(const ByteSource& source, const PartShape& shape, ImageDecoding how,
                            const DecodeLimit& limit) {
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> file, read_image(source, shape));
  const PictureCodec* codec = picture_codec(shape.format);
  if (codec == nullptr) return Error(ErrorCode::kInvalidArgument, "not an image format");
  if (codec->decode == nullptr) return left_out(shape.format);
  const Side stored = turned({shape.width, shape.height}, shape.orientation);
  return codec->decode(file, stored.width, stored.height, how, limit);
}

std::int64_t image_decoding_bytes(const PartShape& shape, std::int32_t divisor) {
  const PictureCodec* codec = picture_codec(shape.format);
  const std::int64_t common = shape.encoded_bytes + kMiB;
  return codec == nullptr ? common : common + codec->decoding_bytes(shape, divisor);
}

}  // namespace isocost
