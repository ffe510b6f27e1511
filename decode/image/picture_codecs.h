#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// All that Isocost knows of the pictures of one format: a row of the table in picture_codecs.cc.
struct PictureCodec {
  MediaFormat format;
  /// Whether only worker processes decode it, also where others are decoded in the loader's own:
  /// its library is large and has had many faults.
  bool needs_worker;
  /// Reads the shape that is stored, before turning, from the header. Null in a build without the
  /// codec's library.
  Result<PartShape> (*read_header)(HeaderWindow& window, std::int64_t max_pixels);
  /// Decodes a whole file whose header says `width` × `height` stored pixels. Null as above.
  Result<Pixels> (*decode)(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit);
  /// Returns an upper bound of the memory of `decode` and its result, without that of the file and
  /// a MiB, which every codec has. `divisor` counts for JPEG alone.
  std::int64_t (*decoding_bytes)(const PartShape& shape, std::int32_t divisor);
};

/// Returns the row of a format; null: it is none of a picture.
const PictureCodec* picture_codec(MediaFormat format);

}  // namespace isocost
