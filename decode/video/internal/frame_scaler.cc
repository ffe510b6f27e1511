#include "decode/video/internal/frame_scaler.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/result.h"
#include "decode/resize/orientation.h"

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/pixfmt.h>
#include <libswscale/swscale.h>
}

namespace isocost {
namespace {

constexpr std::int32_t kAlign = 64;
constexpr std::int32_t kGroup = 32;  // pixels

/// Returns the plain format for a "JPEG" one, which is the same in full range; libswscale takes the
/// range separately.
AVPixelFormat plain_format(int format) {
  switch (format) {
    case AV_PIX_FMT_YUVJ420P:
      return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P:
      return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P:
      return AV_PIX_FMT_YUV444P;
    default:
      return static_cast<AVPixelFormat>(format);
  }
}

/// Returns what a field of an FFmpeg enum holds. Some decoders (of ProRes, MPEG-2) write a byte of
/// the stream there, and a value that the enum does not have must not be read as one.
template <typename Enum>
int value_of(const Enum& field) {
  std::underlying_type_t<Enum> value = 0;
  std::memcpy(&value, &field, sizeof value);
  return static_cast<int>(value);
}

int matrix_of(const AVFrame& frame, int unsaid) {
  switch (value_of(frame.colorspace)) {
    case AVCOL_SPC_BT709:
      return SWS_CS_ITU709;
    case AVCOL_SPC_FCC:
      return SWS_CS_FCC;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M:
      return SWS_CS_ITU601;
    case AVCOL_SPC_SMPTE240M:
      return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return SWS_CS_BT2020;
    default:
      return unsaid;
  }
}

}  // namespace

void FrameScaler::FreeSws::operator()(SwsContext* context) const { sws_freeContext(context); }

FrameScaler::FrameScaler(std::int32_t width, std::int32_t height, std::uint8_t orientation,
                         FrameColours colours)
    : width_(width),
      height_(height),
      orientation_(orientation),
      colours_(colours),
      stored_width_(exchanges_sides(orientation) ? height : width),
      stored_height_(exchanges_sides(orientation) ? width : height),
      // libswscale runs other code at the end of a row that has no room for whole groups of pixels
      stride_(((stored_width_ + kGroup - 1) / kGroup * kGroup * 3 + kAlign - 1) / kAlign * kAlign),
      // libswscale may write a few bytes beyond a row
      scaled_(static_cast<std::size_t>(stride_) * static_cast<std::size_t>(stored_height_) +
              kAlign),
      rgb_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3) {}

FrameScaler::~FrameScaler() = default;

Status FrameScaler::prepare(const AVFrame& frame) {
  const bool own = colours_ == FrameColours::kOwn;
  const bool smaller = stored_width_ < frame.width || stored_height_ < frame.height;
  const int flags = own ? (smaller ? SWS_AREA : SWS_BICUBIC) | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT
                        : SWS_BILINEAR;
  sws_.reset(sws_getCachedContext(sws_.release(), frame.width, frame.height,
                                  plain_format(frame.format), stored_width_, stored_height_,
                                  AV_PIX_FMT_RGB24, flags, nullptr, nullptr, nullptr));
  if (!sws_) return Error(ErrorCode::kUnsupported, "its video's pixel format is not converted");
  const bool full =
      value_of(frame.color_range) == AVCOL_RANGE_JPEG || plain_format(frame.format) != frame.format;
  const int unsaid = own && frame.height >= 720 ? SWS_CS_ITU709 : SWS_CS_ITU601;
  constexpr int kOne = 1 << 16;
  sws_setColorspaceDetails(sws_.get(), sws_getCoefficients(matrix_of(frame, unsaid)), full ? 1 : 0,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, kOne, kOne);
  return {};
}

Result<std::span<const std::uint8_t>> FrameScaler::convert(const AVFrame& frame) {
  ISOCOST_TRY(prepare(frame));
  std::array<std::uint8_t*, 4> to = {scaled_.data(), nullptr, nullptr, nullptr};
  const std::array<int, 4> strides = {stride_, 0, 0, 0};
  const int rows =
      sws_scale(sws_.get(), frame.data, frame.linesize, 0, frame.height, to.data(), strides.data());
  if (rows != stored_height_) return Error(ErrorCode::kInternal, "libswscale failed");
  turn();
  return std::span<const std::uint8_t>(rgb_);
}

/// Turns stored rows into displayed ones. Walking the displayed pixels, a step along a row and a
/// step to the next row are each a constant step in the stored ones.
void FrameScaler::turn() {
  copy_turned(scaled_.data(), pixel_walk(orientation_, stored_width_, stored_height_, stride_),
              width_, height_, rgb_);
}

}  // namespace isocost
