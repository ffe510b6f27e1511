// Reads headers of TIFF 6.0 and BigTIFF.

#include <cstdint>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/image/image_headers.h"
#include "decode/image/internal/tiff_layout.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

Result<PartShape> read_tiff_header(HeaderWindow& window, std::int64_t max_pixels) {
  ISOCOST_ASSIGN(const TiffLayout layout, read_tiff_layout(window));
  PartShape shape;
  shape.width = layout.width;
  shape.height = layout.height;
  shape.orientation = layout.orientation;
  ISOCOST_TRY(check_pixels(shape, max_pixels));
  PartShape block;
  block.width = layout.block_width;
  block.height = layout.block_height;
  ISOCOST_TRY(check_pixels(block, max_pixels));
  const std::int64_t bytes = layout.decoder_bytes();
  if (bytes > INT32_MAX) {
    return Error(ErrorCode::kResourceExhausted, "its TIFF tiles are far larger than its picture");
  }
  shape.channels = static_cast<std::int32_t>(bytes);
  return shape;
}

}  // namespace isocost
