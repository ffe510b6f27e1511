#include <avif/avif.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"

namespace isocost {
namespace {

struct DestroyDecoder {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};
struct DestroyImage {
  void operator()(avifImage* image) const { avifImageDestroy(image); }
};
using AvifImage = std::unique_ptr<avifImage, DestroyImage>;

Error damaged_avif() { return corrupt("its AVIF picture is cut off or damaged"); }

// Returns whether libyuv converts this matrix of colours; libavif's own code converts the others.
bool is_of_libyuv(avifMatrixCoefficients matrix) {
  return matrix == AVIF_MATRIX_COEFFICIENTS_BT709 || matrix == AVIF_MATRIX_COEFFICIENTS_BT601 ||
         matrix == AVIF_MATRIX_COEFFICIENTS_BT470BG ||
         matrix == AVIF_MATRIX_COEFFICIENTS_UNSPECIFIED ||
         matrix == AVIF_MATRIX_COEFFICIENTS_BT2020_NCL;
}

// Returns whether Pillow's libavif 1.4 reduces samples to 8 bits before it converts their colours:
// where libyuv has no function for the deeper ones. libavif 0.11 would convert them by its own
// code, whose values differ by up to 111.
bool is_reduced_first(const avifImage& image, bool has_alpha) {
  if (image.depth == 8 || !is_of_libyuv(image.matrixCoefficients)) return false;
  if (image.yuvFormat == AVIF_PIXEL_FORMAT_YUV400) return has_alpha;
  if (!has_alpha) return true;
  return image.depth == 12 && image.yuvFormat != AVIF_PIXEL_FORMAT_YUV420;
}

struct Plane {
  const std::uint8_t* from;
  std::uint32_t from_row;
  std::uint8_t* to;
  std::uint32_t to_row;
  std::uint32_t width;
  std::uint32_t height;
};

void reduce_plane(const Plane& plane, unsigned depth) {
  for (std::uint32_t y = 0; y < plane.height; ++y) {
    const std::uint8_t* from = plane.from + std::size_t{y} * plane.from_row;
    std::uint8_t* to = plane.to + std::size_t{y} * plane.to_row;
    for (std::size_t x = 0; x < plane.width; ++x) {
      const unsigned value = from[2 * x] | (unsigned{from[2 * x + 1]} << 8);
      to[x] = static_cast<std::uint8_t>(std::min(value >> (depth - 8), 255U));
    }
  }
}

// Returns the picture with samples of 8 bits, without their lower bits. Errors: std::bad_alloc.
AvifImage reduced(const avifImage& deep, bool has_alpha) {
  AvifImage image(avifImageCreate(deep.width, deep.height, 8, deep.yuvFormat));
  if (!image) throw std::bad_alloc();
  image->yuvRange = deep.yuvRange;
  image->colorPrimaries = deep.colorPrimaries;
  image->transferCharacteristics = deep.transferCharacteristics;
  image->matrixCoefficients = deep.matrixCoefficients;
  image->alphaPremultiplied = deep.alphaPremultiplied;
  const avifPlanesFlags planes = has_alpha ? AVIF_PLANES_ALL : AVIF_PLANES_YUV;
  if (avifImageAllocatePlanes(image.get(), planes) != AVIF_RESULT_OK) throw std::bad_alloc();
  avifPixelFormatInfo format;
  avifGetPixelFormatInfo(deep.yuvFormat, &format);
  const auto shift_x = static_cast<std::uint32_t>(format.chromaShiftX);
  const auto shift_y = static_cast<std::uint32_t>(format.chromaShiftY);
  for (int c = AVIF_CHAN_Y; c <= AVIF_CHAN_V; ++c) {
    const bool is_chroma = c != AVIF_CHAN_Y;
    if (is_chroma && format.monochrome != 0) break;
    reduce_plane({deep.yuvPlanes[c], deep.yuvRowBytes[c], image->yuvPlanes[c],
                  image->yuvRowBytes[c], is_chroma ? (deep.width + shift_x) >> shift_x : deep.width,
                  is_chroma ? (deep.height + shift_y) >> shift_y : deep.height},
                 deep.depth);
  }
  if (has_alpha) {
    reduce_plane({deep.alphaPlane, deep.alphaRowBytes, image->alphaPlane, image->alphaRowBytes,
                  deep.width, deep.height},
                 deep.depth);
  }
  return image;
}

// Writes opacities of 10 bits into RGBA without their lower bits, which libavif 0.11 would round.
void write_alpha(const avifImage& image, avifRGBImage& rgb) {
  for (std::uint32_t y = 0; y < image.height; ++y) {
    const std::uint8_t* from = image.alphaPlane + std::size_t{y} * image.alphaRowBytes;
    std::uint8_t* to = rgb.pixels + std::size_t{y} * rgb.rowBytes;
    for (std::size_t x = 0; x < image.width; ++x) {
      const unsigned value = from[2 * x] | (unsigned{from[2 * x + 1]} << 8);
      to[4 * x + 3] = static_cast<std::uint8_t>(std::min(value >> 2, 255U));
    }
  }
}

// Converts colours of 10 bits by libyuv, and then their opacity.
avifResult convert_deep_alpha(const avifImage& image, avifRGBImage& rgb) {
  rgb.alphaPremultiplied = image.alphaPremultiplied;
  const avifResult result = avifImageYUVToRGB(&image, &rgb);
  if (result != AVIF_RESULT_OK) return result;
  write_alpha(image, rgb);
  return image.alphaPremultiplied != 0 ? avifRGBImageUnpremultiplyAlpha(&rgb) : AVIF_RESULT_OK;
}

avifResult convert(const avifImage& image, bool has_alpha, avifRGBImage& rgb) {
  if (is_reduced_first(image, has_alpha)) {
    return avifImageYUVToRGB(reduced(image, has_alpha).get(), &rgb);
  }
  const bool is_by_libyuv = is_of_libyuv(image.matrixCoefficients);
  if (image.depth == 10 && has_alpha && is_by_libyuv) return convert_deep_alpha(image, rgb);
  return avifImageYUVToRGB(&image, &rgb);
}

// Converts a decoded picture to RGB as Pillow does. libyuv and libavif write no bit of the result
// that depends on which vector instructions there are.
Result<Pixels> converted(const avifImage& image, bool has_alpha, Alpha alpha) {
  const auto width = static_cast<std::int32_t>(image.width);
  const auto height = static_cast<std::int32_t>(image.height);
  const int channels = has_alpha ? 4 : 3;
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, channels));
  Pixels pixels{width, height, std::vector<std::uint8_t>(bytes)};
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &image);
  rgb.depth = 8;
  rgb.format = has_alpha ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.pixels = pixels.rgb.data();
  rgb.rowBytes = static_cast<std::uint32_t>(width * channels);
  if (convert(image, has_alpha, rgb) != AVIF_RESULT_OK) {
    return Error(ErrorCode::kUnsupported, "its AVIF colours are not converted");
  }
  if (has_alpha) make_opaque(pixels.rgb, alpha);
  return pixels;
}

}  // namespace

Result<Pixels> decode_avif(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& /*limit*/) {
  const std::unique_ptr<avifDecoder, DestroyDecoder> decoder(avifDecoderCreate());
  if (!decoder) throw std::bad_alloc();
  decoder->codecChoice = AVIF_CODEC_CHOICE_DAV1D;
  decoder->maxThreads = 1;
  decoder->ignoreExif = AVIF_TRUE;
  decoder->ignoreXMP = AVIF_TRUE;
  // Pillow is as lenient.
  decoder->strictFlags = AVIF_STRICT_ALPHA_ISPE_REQUIRED;
  const std::int64_t pixels = std::int64_t{width} * height;
  constexpr std::int64_t kCells = 4;  // A grid may have up to as many pixels, and a cell as well.
  decoder->imageSizeLimit = static_cast<std::uint32_t>(
      std::min<std::int64_t>(kCells * pixels + (1 << 16), AVIF_DEFAULT_IMAGE_SIZE_LIMIT));
  if (avifDecoderSetSource(decoder.get(), AVIF_DECODER_SOURCE_PRIMARY_ITEM) != AVIF_RESULT_OK ||
      avifDecoderSetIOMemory(decoder.get(), file.data(), file.size()) != AVIF_RESULT_OK ||
      avifDecoderParse(decoder.get()) != AVIF_RESULT_OK) {
    return damaged_avif();
  }
  const auto is_as_probed = [&] {
    return decoder->image->width == static_cast<std::uint32_t>(width) &&
           decoder->image->height == static_cast<std::uint32_t>(height);
  };
  if (!is_as_probed()) return corrupt("its AVIF picture has another size than its header says");
  if (avifDecoderNextImage(decoder.get()) != AVIF_RESULT_OK) return damaged_avif();
  if (!is_as_probed()) return corrupt("its AVIF picture has another size than its header says");
  return converted(*decoder->image, decoder->alphaPresent != 0, how.alpha);
}

}  // namespace isocost
