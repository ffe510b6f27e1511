#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"

namespace isocost {
namespace {

struct DeleteAnimation {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

// Returns whether the container's header announces opacity; true without such a header.
bool announces_alpha(ByteView file) {
  constexpr std::size_t kFlags = 20;
  constexpr std::uint8_t kAlpha = 0x10;
  return file.size() <= kFlags || !has_tag(file, 12, "VP8X") || (file[kFlags] & kAlpha) != 0;
}

Error not_decoded() { return corrupt("its WebP picture is cut off or damaged"); }

Result<Pixels> first_of_animation(ByteView file, Pixels pixels, Alpha alpha) {
  WebPAnimDecoderOptions options;
  if (WebPAnimDecoderOptionsInit(&options) == 0) return not_decoded();
  options.use_threads = 0;
  const WebPData data{file.data(), file.size()};
  const std::unique_ptr<WebPAnimDecoder, DeleteAnimation> decoder(
      WebPAnimDecoderNew(&data, &options));
  std::uint8_t* canvas = nullptr;
  int timestamp = 0;
  if (!decoder || WebPAnimDecoderGetNext(decoder.get(), &canvas, &timestamp) == 0) {
    return not_decoded();
  }
  std::copy_n(canvas, pixels.rgb.size(), pixels.rgb.begin());
  make_opaque(pixels.rgb, alpha);
  return pixels;
}

}  // namespace

Result<Pixels> decode_webp(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& /*limit*/) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) return not_decoded();
  if (features.width != width || features.height != height) {
    return corrupt("its WebP picture has another size than its header says");
  }
  // Opacity that the container does not announce counts in a lossless picture alone, whose own
  // header has it; not in an ALPH chunk beside a lossy one.
  constexpr int kLossless = 2;
  const bool is_announced = announces_alpha(file);
  const bool has_alpha = features.has_alpha != 0 && (is_announced || features.format == kLossless);
  const int channels = has_alpha || features.has_animation != 0 ? 4 : 3;
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, channels));
  Pixels pixels{width, height, {}};
  pixels.rgb.resize(bytes);
  if (features.has_animation != 0) {
    return first_of_animation(file, std::move(pixels), is_announced ? how.alpha : Alpha::kDrop);
  }
  std::uint8_t* to = pixels.rgb.data();
  const bool decoded =
      (channels == 4
           ? WebPDecodeRGBAInto(file.data(), file.size(), to, bytes, 4 * width)
           : WebPDecodeRGBInto(file.data(), file.size(), to, bytes, 3 * width)) != nullptr;
  if (!decoded) return not_decoded();
  if (channels == 4) make_opaque(pixels.rgb, how.alpha);
  return pixels;
}

std::int64_t webp_decoding_bytes(const PartShape& shape, std::int32_t /*divisor*/) {
  // Counts two canvases, if it is animated.
  const std::int64_t pixels = std::int64_t{shape.width} * shape.height;
  return pixels * (4 + 4 + 4 + 2) + std::int64_t{shape.width} * 64;
}

}  // namespace isocost
