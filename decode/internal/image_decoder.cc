#include "decode/internal/image_decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/checked.h"
#include "base/result.h"
#include "decode/internal/area_resize.h"
#include "decode/internal/image_codecs.h"
#include "decode/internal/media_bytes.h"
#include "decode/internal/patch_grid.h"
#include "decode/internal/patchify.h"
#include "decode/sample_shape.h"

namespace isocost {
namespace {

struct Side {
  std::int32_t width = 0;
  std::int32_t height = 0;
};

Side turned(Side side, std::uint8_t orientation) {
  if (orientation > 4) std::swap(side.width, side.height);
  return side;
}

Result<Pixels> decode(ByteView file, const PartShape& shape, Side stored, JpegDecoding jpeg,
                      Alpha alpha) {
  switch (shape.format) {
    case MediaFormat::kJpeg:
      return decode_jpeg(file, stored.width, stored.height, jpeg);
    case MediaFormat::kPng:
      return decode_png(file, stored.width, stored.height, alpha);
    case MediaFormat::kWebp:
      return decode_webp(file, stored.width, stored.height, alpha);
    case MediaFormat::kGif:
      return decode_gif(file, stored.width, stored.height, alpha);
    case MediaFormat::kBmp:
      return decode_bmp(file, stored.width, stored.height, alpha);
    default:
      return Error(ErrorCode::kInvalidArgument, "not an image format");
  }
}

/// True where linear interpolation would leave out pixels.
bool shrinks(std::int32_t from, std::int32_t to) { return to < from / 4 * 3; }

Status average(Pixels& pixels, Side to) {
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(to.width, to.height, 3));
  std::vector<std::uint8_t> rgb(bytes);
  area_resize(pixels.rgb, pixels.width, pixels.height, rgb, to.width, to.height);
  pixels = {to.width, to.height, std::move(rgb)};
  return {};
}

Status interpolate(Pixels& pixels, Side to) {
  if (pixels.width == to.width && pixels.height == to.height) return {};
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(to.width, to.height, 3));
  std::vector<std::uint8_t> rgb(bytes);
  try {
    const cv::Mat from(pixels.height, pixels.width, CV_8UC3, pixels.rgb.data());
    cv::Mat into(to.height, to.width, CV_8UC3, rgb.data());
    cv::resize(from, into, into.size(), 0, 0, cv::INTER_LINEAR);
  } catch (const cv::Exception& error) {
    return Error(ErrorCode::kInternal, std::string("OpenCV does not resize: ") + error.what());
  }
  pixels = {to.width, to.height, std::move(rgb)};
  return {};
}

/// Sides that shrink much are averaged first; the rest (most pictures are only rounded to patches)
/// is linear, which is ten times as fast.
Status resize(Pixels& pixels, Side target) {
  static std::once_flag once;
  std::call_once(once, [] { cv::setNumThreads(0); });  // our workers are the parallelism
  const bool both = target.width <= pixels.width && target.height <= pixels.height;
  Side smaller = {pixels.width, pixels.height};
  if (shrinks(pixels.width, target.width)) smaller.width = target.width;
  if (shrinks(pixels.height, target.height)) smaller.height = target.height;
  const bool any = smaller.width != pixels.width || smaller.height != pixels.height;
  if (any) ISOCOST_TRY(average(pixels, both ? target : smaller));
  return interpolate(pixels, target);
}

}  // namespace

Result<std::size_t> pixel_bytes(std::int32_t width, std::int32_t height, int channels) {
  const auto pixels = checked_product(width, height);
  const auto bytes = pixels ? checked_product(*pixels, channels) : std::nullopt;
  if (!bytes) return Error(ErrorCode::kResourceExhausted, "a picture of an impossible size");
  return static_cast<std::size_t>(*bytes);
}

void make_opaque(std::vector<std::uint8_t>& pixels, Alpha how) {
  const std::size_t count = pixels.size() / 4;
  if (how == Alpha::kDrop) {
    for (std::size_t i = 0; i < count; ++i) std::memmove(&pixels[3 * i], &pixels[4 * i], 3);
    pixels.resize(3 * count);
    return;
  }
  const std::uint8_t* from = pixels.data();
  std::uint8_t* to = pixels.data();
  for (std::size_t i = 0; i < count; ++i, from += 4, to += 3) {
    const unsigned alpha = from[3];
    const unsigned white = 255U * (255U - alpha) + 127U;
    for (std::size_t c = 0; c < 3; ++c) {
      to[c] = static_cast<std::uint8_t>((from[c] * alpha + white) / 255U);
    }
  }
  pixels.resize(3 * count);
}

Result<std::vector<std::uint8_t>> read_image(const ByteSource& source, const PartShape& shape) {
  if (source.size() != shape.encoded_bytes) {
    return corrupt("its size has changed since it was indexed");
  }
  return read_some(source, 0, static_cast<std::size_t>(source.size()));
}

Result<Pixels> decode_image(const ByteSource& source, const PartShape& shape, JpegDecoding jpeg,
                            Alpha alpha) {
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> file, read_image(source, shape));
  return decode(file, shape, turned({shape.width, shape.height}, shape.orientation), jpeg, alpha);
}

Status image_patches(const ByteSource& source, const PartShape& shape, PatchGrid grid,
                     std::span<std::byte> patches) {
  if (static_cast<std::int64_t>(patches.size()) != grid.bytes()) {
    return Error(ErrorCode::kInvalidArgument, "image_patches: room for another grid");
  }
  const Side stored = turned({shape.width, shape.height}, shape.orientation);
  const Side target = turned({grid.width(), grid.height()}, shape.orientation);
  const auto divisor = jpeg_divisor(stored.width, stored.height, target.width, target.height);
  ISOCOST_ASSIGN(Pixels pixels, decode_image(source, shape, {divisor}));
  ISOCOST_TRY(resize(pixels, target));
  patchify(pixels.rgb, shape.orientation, grid, patches);
  return {};
}

}  // namespace isocost
