#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/recipe_options.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Decoded pixels as stored, without EXIF orientation: [height, width, 3] uint8 RGB, packed.
struct Pixels {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint8_t> rgb;
};

struct ImageDecoding {
  /// Divisor of the sides of a JPEG, which are rounded up: 1, 2, 4 or 8.
  std::int32_t divisor = 1;
  /// kFast: for a JPEG a coarser inverse transform, and colours are repeated, not interpolated,
  /// where the file has fewer of them than pixels.
  Exactness exactness = Exactness::kExact;
  Alpha alpha = Alpha::kWhite;
  Truncated truncated = Truncated::kBad;
};

/// Returns the largest divisor, 1, 2, 4 or 8, with which JPEG's inverse transform does not fall
/// below the target. Sides are those stored.
std::int32_t jpeg_divisor(std::int32_t width, std::int32_t height, std::int32_t target_width,
                          std::int32_t target_height);

/// Decodes an image. Computes on the calling thread. Errors: kCorrupt (truncated, damaged, another
/// size than the shape's), kUnsupported, kIo; for JPEG, those of DecodeLimit::check. Other files
/// are decoded to their end, which takes seconds at most within the limits of pixels.
Result<Pixels> decode_image(const ByteSource& source, const PartShape& shape, ImageDecoding how,
                            const DecodeLimit& limit);
/// Returns an upper bound of the memory of decode_image, its result and the file included.
std::int64_t image_decoding_bytes(const PartShape& shape, std::int32_t divisor);

/// Reads the file of an image. Errors: kCorrupt (another size than the shape's), kIo.
Result<std::vector<std::uint8_t>> read_image(const ByteSource& source, const PartShape& shape);
/// Returns an upper bound of the memory in which a JPEG's rows are decoded, the file included.
std::int64_t jpeg_rows_bytes(const PartShape& shape);

}  // namespace isocost
