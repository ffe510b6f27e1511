#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Reads the shape from the header for kJpeg, kPng, kWebp, kGif, kBmp, kTiff, kHeic and kAvif;
/// the caller has checked the marks of the format. Makes a few reads of 4 KiB. Errors: kCorrupt,
/// kUnsupported, kResourceExhausted (more pixels), kIo.
Result<PartShape> read_image_header(HeaderWindow& window, MediaFormat format,
                                    std::int64_t max_pixels);

struct JpegFrame {
  PartShape shape;              ///< The shape that read_jpeg_header returns.
  std::int32_t components = 0;  ///< 1, 3 or 4.
  std::int64_t scan = 0;        ///< Offset of the first scan's bytes.
};
Result<JpegFrame> read_jpeg_frame(HeaderWindow& window);

/// Read the header of each format. Width and height are those stored, before turning. Those that
/// look for more than the size do not beyond `max_pixels`.
Result<PartShape> read_jpeg_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_png_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_webp_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_gif_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_bmp_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_tiff_header(HeaderWindow& window, std::int64_t max_pixels);
/// The shape is that of the displayed picture, which is upright.
Result<PartShape> read_heic_header(HeaderWindow& window, std::int64_t max_pixels);
Result<PartShape> read_avif_header(HeaderWindow& window, std::int64_t max_pixels);

/// Returns the error of a format whose decoder this build was made without.
Error left_out(MediaFormat format);

/// Checks the size of an image. Errors: kResourceExhausted if it has more than `max_pixels`.
Status check_pixels(const PartShape& shape, std::int64_t max_pixels);

}  // namespace isocost
