#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/shape/decode_limit.h"

namespace isocost {

// One function a library. `file` is the whole file, of `width` × `height` stored pixels according
// to its header; a decoder that finds another size answers kCorrupt, as for what is cut off or
// damaged. All compute on the calling thread.

Result<Pixels> decode_jpeg(ByteView file, std::int32_t width, std::int32_t height, JpegDecoding how,
                           const DecodeLimit& limit);
Result<Pixels> decode_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha);
/// By libspng alone, which takes every kind of PNG and is the reference of the faster way.
Result<Pixels> decode_any_png(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha);
Result<Pixels> decode_webp(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha);
/// The first picture, on its canvas.
Result<Pixels> decode_gif(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha);
Result<Pixels> decode_bmp(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha);

/// Bytes of `width` × `height` pixels of `channels`, or kResourceExhausted.
Result<std::size_t> pixel_bytes(std::int32_t width, std::int32_t height, int channels);

/// RGBA to RGB, in place; drops the last quarter.
void make_opaque(std::vector<std::uint8_t>& pixels, Alpha how);

}  // namespace isocost
