#include "decode/image/image_headers.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/resize/orientation.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

Result<PartShape> read_stored(HeaderWindow& window, MediaFormat format, std::int64_t max_pixels) {
  switch (format) {
    case MediaFormat::kJpeg:
      return read_jpeg_header(window);
    case MediaFormat::kPng:
      return read_png_header(window, max_pixels);
    case MediaFormat::kWebp:
      return read_webp_header(window);
    case MediaFormat::kGif:
      return read_gif_header(window);
    case MediaFormat::kBmp:
      return read_bmp_header(window);
    default:
      return Error(ErrorCode::kInvalidArgument, "read_image_header: not an image format");
  }
}

}  // namespace

Result<PartShape> read_image_header(HeaderWindow& window, MediaFormat format,
                                    std::int64_t max_pixels) {
  ISOCOST_ASSIGN(PartShape shape, read_stored(window, format, max_pixels));
  if (shape.width <= 0 || shape.height <= 0) return corrupt("its header says a size of zero");
  ISOCOST_TRY(check_pixels(shape, max_pixels));
  shape.modality = Modality::kImage;
  shape.format = format;
  shape.encoded_bytes = window.size();
  if (exchanges_sides(shape.orientation)) std::swap(shape.width, shape.height);
  return shape;
}

Status check_pixels(const PartShape& shape, std::int64_t max_pixels) {
  if (std::int64_t{shape.width} * shape.height <= max_pixels) return {};
  return Error(ErrorCode::kResourceExhausted,
               std::to_string(shape.width) + "x" + std::to_string(shape.height) +
                   " pixels are over the limit of " + std::to_string(max_pixels) +
                   ": raise max_pixels");
}

Result<std::uint8_t> exif_orientation(HeaderWindow& window, std::int64_t begin, std::int64_t end) {
  constexpr std::uint8_t kUpright = 1;
  constexpr std::size_t kEntryBytes = 12;
  constexpr std::uint64_t kOrientationTag = 0x0112;
  constexpr std::uint64_t kShort = 3;
  ISOCOST_ASSIGN(ByteView bytes, window.some(begin, 8));
  if (bytes.size() < 8 || begin + 8 > end) return kUpright;
  const bool little = has_tag(bytes, 0, "II");
  if (!little && !has_tag(bytes, 0, "MM")) return kUpright;
  const auto read = [little](ByteView from, std::size_t at, std::size_t n) {
    return little ? little_endian(from, at, n) : big_endian(from, at, n);
  };
  if (read(bytes, 2, 2) != 42) return kUpright;
  const std::int64_t directory = begin + static_cast<std::int64_t>(read(bytes, 4, 4));
  ISOCOST_ASSIGN(bytes, window.some(directory, 2));
  if (bytes.size() < 2 || directory + 2 > end) return kUpright;
  const std::uint64_t entries = read(bytes, 0, 2);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::int64_t at = directory + 2 + static_cast<std::int64_t>(i * kEntryBytes);
    ISOCOST_ASSIGN(bytes, window.some(at, kEntryBytes));
    if (bytes.size() < kEntryBytes || at + static_cast<std::int64_t>(kEntryBytes) > end) break;
    if (read(bytes, 0, 2) != kOrientationTag || read(bytes, 2, 2) != kShort) continue;
    const std::uint64_t value = read(bytes, 8, 2);
    return value >= 1 && value <= 8 ? static_cast<std::uint8_t>(value) : kUpright;
  }
  return kUpright;
}

}  // namespace isocost
