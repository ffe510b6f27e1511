#include "decode/image/image_headers.h"

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
    case MediaFormat::kTiff:
      return read_tiff_header(window, max_pixels);
    case MediaFormat::kHeic:
      if (ISOCOST_WITH_HEIF == 0) return left_out(format);
      return read_heic_header(window, max_pixels);
    case MediaFormat::kAvif:
      if (ISOCOST_WITH_AVIF == 0) return left_out(format);
      return read_avif_header(window, max_pixels);
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

Error left_out(MediaFormat format) {
  return {ErrorCode::kUnsupported,
          "is " + std::string(format_name(format)) +
              ", and this build of Isocost has no decoder for it: convert it, or install Isocost "
              "from its Debian packages"};
}

Status check_pixels(const PartShape& shape, std::int64_t max_pixels) {
  if (std::int64_t{shape.width} * shape.height <= max_pixels) return {};
  return Error(ErrorCode::kResourceExhausted,
               std::to_string(shape.width) + "x" + std::to_string(shape.height) +
                   " pixels are over the limit of " + std::to_string(max_pixels) +
                   ": raise max_decoded_pixels");
}

}  // namespace isocost
