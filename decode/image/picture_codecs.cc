#include "decode/image/picture_codecs.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/units.h"
#include "decode/image/image_codecs.h"
#include "decode/image/image_headers.h"

namespace isocost {
namespace {

// Returns the memory of codecs whose header tells how many bytes each pixel takes: their tiles and
// grids may be larger than the picture.
std::int64_t told_decoding_bytes(const PartShape& shape, std::int32_t /*divisor*/) {
  const std::int64_t pixels = std::int64_t{shape.width} * shape.height;
  return shape.encoded_bytes + kMiB + pixels * shape.channels;
}

constexpr bool kInWorker = true;
constexpr bool kAnywhere = false;

// A codec is a row here and its own files.
constexpr auto kCodecs = std::to_array<PictureCodec>({
    {MediaFormat::kJpeg, kAnywhere, read_jpeg_header, decode_jpeg, jpeg_decoding_bytes},
    {MediaFormat::kPng, kAnywhere, read_png_header, decode_png, png_decoding_bytes},
    {MediaFormat::kWebp, kAnywhere, read_webp_header, decode_webp, webp_decoding_bytes},
    {MediaFormat::kGif, kAnywhere, read_gif_header, decode_gif, gif_decoding_bytes},
    {MediaFormat::kBmp, kAnywhere, read_bmp_header, decode_bmp, bmp_decoding_bytes},
    {MediaFormat::kTiff, kInWorker, read_tiff_header, decode_tiff, told_decoding_bytes},
#if ISOCOST_WITH_HEIF
    {MediaFormat::kHeic, kInWorker, read_heic_header, decode_heic, told_decoding_bytes},
#else
    {MediaFormat::kHeic, kInWorker, nullptr, nullptr, told_decoding_bytes},
#endif
#if ISOCOST_WITH_AVIF
    {MediaFormat::kAvif, kInWorker, read_avif_header, decode_avif, told_decoding_bytes},
#else
    {MediaFormat::kAvif, kInWorker, nullptr, nullptr, told_decoding_bytes},
#endif
});

}  // namespace

const PictureCodec* picture_codec(MediaFormat format) {
  const auto* const found = std::ranges::find(kCodecs, format, &PictureCodec::format);
  return found == kCodecs.end() ? nullptr : found;
}

}  // namespace isocost
