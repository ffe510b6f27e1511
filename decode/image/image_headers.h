#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Header -> shape for kJpeg, kPng, kWebp, kGif, kBmp, whose first bytes have already been seen to
/// be of that format. A few reads of 4 KiB, no allocation. Errors: kCorrupt, kUnsupported,
/// kResourceExhausted (more pixels), kIo.
Result<PartShape> read_image_header(HeaderWindow& window, MediaFormat format,
                                    std::int64_t max_pixels);

struct JpegFrame {
  PartShape shape;              ///< As read_jpeg_header gives it.
  std::int32_t components = 0;  ///< 1, 3 or 4.
  std::int64_t scan = 0;        ///< Where the first scan's bytes begin.
};
Result<JpegFrame> read_jpeg_frame(HeaderWindow& window);

/// The readers of each format: width and height are those stored, and still to be turned.
Result<PartShape> read_jpeg_header(HeaderWindow& window);
Result<PartShape> read_png_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_webp_header(HeaderWindow& window);
Result<PartShape> read_gif_header(HeaderWindow& window);
Result<PartShape> read_bmp_header(HeaderWindow& window);

/// Errors: kResourceExhausted if the image has more than `max_pixels`.
Status check_pixels(const PartShape& shape, std::int64_t max_pixels);

/// Returns the orientation in the EXIF block (a small TIFF) within [begin, end). A block that is
/// broken or states none counts as orientation 1, as in image viewers. Errors: kIo.
Result<std::uint8_t> exif_orientation(HeaderWindow& window, std::int64_t begin, std::int64_t end);

}  // namespace isocost
