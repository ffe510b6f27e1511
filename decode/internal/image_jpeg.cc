#include <turbojpeg.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/internal/header_window.h"
#include "decode/internal/image_codecs.h"
#include "decode/internal/image_headers.h"
#include "decode/internal/media_bytes.h"

namespace isocost {
namespace {

struct DestroyJpeg {
  void operator()(void* jpeg) const { tjDestroy(jpeg); }
};

/// What libjpeg-turbo warns of although every pixel is there.
bool is_harmless(std::string_view warning) {
  return warning.find("extraneous bytes before marker") != std::string_view::npos ||
         warning.find("Unknown Adobe color transform") != std::string_view::npos;
}

/// Only the first warning can be read, so behind a harmless one the end is looked for here.
bool has_end(ByteView file, std::size_t scan) {
  for (std::size_t at = file.size(); at >= scan + 2; --at) {
    if (file[at - 2] == 0xFF && file[at - 1] == 0xD9) return true;
  }
  return false;
}

Status decompress(ByteView file, const JpegFrame& frame, Pixels& pixels, int format) {
  const std::unique_ptr<void, DestroyJpeg> jpeg(tjInitDecompress());
  if (!jpeg) return Error(ErrorCode::kInternal, "libjpeg-turbo does not start");
  const auto run = [&](int flags) {
    return tjDecompress2(jpeg.get(), file.data(), static_cast<unsigned long>(file.size()),
                         pixels.rgb.data(), pixels.width, 0, pixels.height, format,
                         flags | TJFLAG_LIMITSCANS);
  };
  if (run(TJFLAG_STOPONWARNING) == 0) return {};
  const std::string what = tjGetErrorStr2(jpeg.get());
  if (tjGetErrorCode(jpeg.get()) == TJERR_WARNING && is_harmless(what) &&
      has_end(file, static_cast<std::size_t>(frame.scan))) {
    const bool decoded = run(0) == 0 || tjGetErrorCode(jpeg.get()) == TJERR_WARNING;
    if (decoded) return {};
  }
  if (what.starts_with("Insufficient memory")) throw std::bad_alloc();
  return corrupt("its JPEG does not decode: " + what);
}

/// Adobe's way, in which all such files come: 255 is no ink.
void cmyk_to_rgb(std::vector<std::uint8_t>& pixels) {
  const std::size_t count = pixels.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned key = pixels[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      pixels[3 * i + c] = static_cast<std::uint8_t>((pixels[4 * i + c] * key + 127) / 255);
    }
  }
  pixels.resize(3 * count);
}

}  // namespace

Result<Pixels> decode_jpeg(ByteView file, std::int32_t width, std::int32_t height,
                           std::int32_t divisor) {
  const MemoryByteSource source(std::as_bytes(file));
  HeaderWindow window(source);
  ISOCOST_ASSIGN(const JpegFrame frame, read_jpeg_frame(window));
  if (frame.shape.width != width || frame.shape.height != height) {
    return corrupt("its JPEG header has changed since it was probed");
  }
  const bool cmyk = frame.components == 4;
  Pixels pixels;
  pixels.width = (width + divisor - 1) / divisor;
  pixels.height = (height + divisor - 1) / divisor;
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(pixels.width, pixels.height, cmyk ? 4 : 3));
  pixels.rgb.resize(bytes);
  ISOCOST_TRY(decompress(file, frame, pixels, cmyk ? TJPF_CMYK : TJPF_RGB));
  if (cmyk) cmyk_to_rgb(pixels.rgb);
  return pixels;
}

}  // namespace isocost
