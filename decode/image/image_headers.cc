#include "decode/image/image_headers.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/picture_codecs.h"
#include "decode/resize/orientation.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
Result<PartShape> read_image_header(HeaderWindow& window, MediaFormat format,
                                    std::int64_t max_pixels) {
  const PictureCodec* codec = picture_codec(format);
  if (codec == nullptr) {
    return Error(ErrorCode::kInvalidArgument, "read_image_header: not an image format");
  }
  if (codec->read_header == nullptr) return left_out(format);
  ISOCOST_ASSIGN(PartShape shape, codec->read_header(window, max_pixels));
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
