#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/bmp_layout.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/pixfmt.h>
#include <libswscale/swscale.h>
}

namespace isocost {
namespace {

struct FreeScaler {
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};

// A file that may lack its end, which is zeros then.
struct PresentBytes {
  ByteView bytes;
  std::size_t whole = 0;  // size with the end
};

Result<AvFrame> decode_frame(const PresentBytes& file, std::int64_t max_pixels) {
  take_over_ffmpeg_log();
  const AVCodec* decoder = avcodec_find_decoder(AV_CODEC_ID_BMP);
  if (decoder == nullptr) {
    return Error(ErrorCode::kUnsupported, "this libavcodec does not decode BMP");
  }
  const AvCodec codec(avcodec_alloc_context3(decoder));
  if (!codec) throw std::bad_alloc();
  codec->thread_count = 1;
  codec->max_pixels = max_pixels;
  codec->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_EXPLODE;
  const AvPacket packet = make_av_packet();
  if (avcodec_open2(codec.get(), decoder, nullptr) < 0 || file.whole > INT32_MAX / 2 ||
      av_new_packet(packet.get(), static_cast<int>(file.whole)) < 0) {
    return corrupt("its BMP picture is too large");
  }
  std::fill(std::ranges::copy(file.bytes, packet->data).out, packet->data + file.whole,
            std::uint8_t{0});
  AvFrame frame = make_av_frame();
  if (avcodec_send_packet(codec.get(), packet.get()) < 0 ||
      avcodec_receive_frame(codec.get(), frame.get()) < 0) {
    return corrupt("its BMP picture is cut off or damaged");
  }
  return frame;
}

// Returns what is there of the pixels: whole rows, of which the last may lack its padding. The rest
// of the file is read as zeros. Errors: kCorrupt for a file that is not cut off within them.
Result<PresentBytes> whole_rows(ByteView file, const BmpLayout& layout, std::int32_t height) {
  if (std::abs(layout.height) != height) {
    return corrupt("its BMP header has changed since it was probed");
  }
  constexpr std::size_t kMostBefore = std::size_t{1} << 20;  // header, masks and palette
  if (layout.data_offset > std::max(file.size(), kMostBefore) ||
      layout.header_bytes > file.size()) {
    return corrupt("cut off before its pixels");
  }
  const std::size_t pixels = file.size() - std::min(file.size(), layout.data_offset);
  std::size_t rows = pixels / layout.stride();
  if (pixels % layout.stride() >= layout.row_bytes()) ++rows;
  return PresentBytes{
      file.first(std::min(file.size(), layout.data_offset + rows * layout.stride())),
      layout.data_offset + static_cast<std::size_t>(height) * layout.stride()};
}

Result<PresentBytes> present_bytes(ByteView file, std::int32_t height, Truncated truncated) {
  ISOCOST_ASSIGN(const BmpLayout layout,
                 BmpLayout::read(file.first(std::min(file.size(), BmpLayout::kBytes))));
  if (layout.fits(file.size())) return PresentBytes{file, file.size()};
  if (truncated == Truncated::kAccept && !layout.has_runs()) {
    return whole_rows(file, layout, height);
  }
  return corrupt("cut off: its pixels need more than the " + std::to_string(file.size()) +
                 " bytes that are there");
}

// Returns whether the fourth byte of a pixel is its opacity: without masks it means nothing, though
// libavcodec takes it for that.
bool has_alpha(ByteView file) {
  constexpr std::size_t kCompressionAt = 30;
  return file.size() >= kCompressionAt + 4 && little_endian(file, kCompressionAt, 4) != 0;
}

}  // namespace

Result<Pixels> decode_bmp(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha,
                          Truncated truncated) {
  constexpr std::int64_t kRoom = 64;
  ISOCOST_ASSIGN(const PresentBytes present, present_bytes(file, height, truncated));
  ISOCOST_ASSIGN(const AvFrame frame, decode_frame(present, (width + kRoom) * (height + kRoom)));
  if (frame->width != width || frame->height != height) {
    return corrupt("its BMP header has changed since it was probed");
  }
  const std::unique_ptr<SwsContext, FreeScaler> scaler(
      sws_getContext(width, height, static_cast<AVPixelFormat>(frame->format), width, height,
                     AV_PIX_FMT_RGBA, SWS_POINT, nullptr, nullptr, nullptr));
  if (!scaler) return Error(ErrorCode::kUnsupported, "its BMP pixel format is not converted");
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, 4));
  Pixels pixels{width, height, {}};
  constexpr std::size_t kSlack = 64;  // libswscale may write a little beyond a row
  pixels.rgb.resize(bytes + kSlack);
  const std::array<std::uint8_t*, 4> to = {pixels.rgb.data(), nullptr, nullptr, nullptr};
  const std::array<int, 4> strides = {4 * width, 0, 0, 0};
  if (sws_scale(scaler.get(), frame->data, frame->linesize, 0, height, to.data(), strides.data()) !=
      height) {
    return Error(ErrorCode::kInternal, "libswscale failed");
  }
  pixels.rgb.resize(bytes);
  make_opaque(pixels.rgb, has_alpha(file) ? alpha : Alpha::kDrop);
  return pixels;
}

}  // namespace isocost
