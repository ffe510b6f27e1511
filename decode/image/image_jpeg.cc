#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/jpeg_rows.h"
#include "decode/resize/resample_kernels.h"

namespace isocost {

Result<Pixels> decode_jpeg(ByteView file, std::int32_t width, std::int32_t height, JpegDecoding how,
                           const DecodeLimit& limit) {
  ISOCOST_ASSIGN(const std::unique_ptr<JpegRows> rows,
                 JpegRows::open(file, width, height, how, limit));
  Pixels pixels{rows->width(), rows->height(), {}};
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(pixels.width, pixels.height, 3));
  pixels.rgb.reserve(bytes);
  const std::ptrdiff_t row = std::ptrdiff_t{pixels.width} * 3;
  for (std::int32_t y = 0; y < pixels.height; y += static_cast<std::int32_t>(kResampleBatch)) {
    std::array<const std::uint8_t*, kResampleBatch> some{};
    ISOCOST_TRY(rows->read(y, some));
    const auto count = std::min<std::int32_t>(kResampleBatch, pixels.height - y);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      pixels.rgb.insert(pixels.rgb.end(), some[i], some[i] + row);
    }
  }
  ISOCOST_TRY(rows->finish());
  return pixels;
}

}  // namespace isocost
