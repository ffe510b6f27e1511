#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

// One decoding function per format. `file` is the whole file, of `width` × `height` stored pixels
// according to its header. Errors: kCorrupt for another size, a truncated or damaged file; of JPEG
// and TIFF also those of DecodeLimit::check. All compute on the calling thread.

Result<Pixels> decode_jpeg(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit);
Result<Pixels> decode_png(ByteView file, std::int32_t width, std::int32_t height,
                          const ImageDecoding& how, const DecodeLimit& limit);
Result<Pixels> decode_webp(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit);
/// Decodes the first picture, on its canvas.
Result<Pixels> decode_gif(ByteView file, std::int32_t width, std::int32_t height,
                          const ImageDecoding& how, const DecodeLimit& limit);
Result<Pixels> decode_bmp(ByteView file, std::int32_t width, std::int32_t height,
                          const ImageDecoding& how, const DecodeLimit& limit);
/// Decodes the first picture.
Result<Pixels> decode_tiff(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit);
/// Decodes the primary picture with libheif and libde265, and carries out the turns and cuts that
/// the file asks for: `width` × `height` is the result. A build may be without it.
Result<Pixels> decode_heic(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit);
/// Decodes the primary picture with libavif and dav1d. A build may be without it.
Result<Pixels> decode_avif(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit);

/// Decodes with libspng only. It reads every kind of PNG, and is the reference for the faster
/// decoder.
Result<Pixels> decode_any_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha);
/// Decodes the rows before the end of the file or a fault in it; the other pixels are zero.
Result<Pixels> decode_truncated_png(ByteView file, std::int32_t width, std::int32_t height,
                                    Alpha alpha);

// Upper bounds of the memory of these functions and their results (PictureCodec::decoding_bytes).

std::int64_t jpeg_decoding_bytes(const PartShape& shape, std::int32_t divisor);
std::int64_t png_decoding_bytes(const PartShape& shape, std::int32_t divisor);
std::int64_t webp_decoding_bytes(const PartShape& shape, std::int32_t divisor);
std::int64_t gif_decoding_bytes(const PartShape& shape, std::int32_t divisor);
std::int64_t bmp_decoding_bytes(const PartShape& shape, std::int32_t divisor);

/// Returns the bytes of `width` × `height` pixels of `channels`. Errors: kResourceExhausted.
Result<std::size_t> pixel_bytes(std::int32_t width, std::int32_t height, int channels);

/// Converts RGBA to RGB in place; drops the last quarter.
void make_opaque(std::vector<std::uint8_t>& pixels, Alpha how);

}  // namespace isocost
