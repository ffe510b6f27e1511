// Reads headers of HEIC and AVIF, whose pictures are items of an ISO base media file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_headers.h"
#include "decode/image/internal/heif_layout.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

// Most bytes that decoders take for each coded pixel, of 8 bits and of more. Tests measure 7 and 15
// of HEVC and 10 and 20 of AV1, with opacity and colours for each pixel; film grain takes up to 6.
struct CodecBytes {
  std::int64_t shallow;
  std::int64_t deep;
};
constexpr CodecBytes kHevcBytes{16, 24};
constexpr CodecBytes kAv1Bytes{16, 30};

// Checks that the codec is the one whose decoder this format has.
Status check_codec(const HeifLayout& layout, HeifCodec codec) {
  if (layout.codec == codec) return {};
  return corrupt(std::string("its picture is coded as ") +
                 (codec == HeifCodec::kHevc ? "AV1" : "HEVC") +
                 ", which its first bytes do not say: convert it");
}

// Writes the memory of a picture of `pixels` into its shape.
Status take_memory(const HeifLayout& layout, CodecBytes bytes, std::int64_t max_pixels,
                   PartShape& shape) {
  PartShape stored;
  stored.width = layout.width;
  stored.height = layout.height;
  ISOCOST_TRY(check_pixels(stored, max_pixels));
  ISOCOST_TRY(check_pixels(shape, max_pixels));
  const std::int64_t pixels = std::int64_t{shape.width} * shape.height;
  const std::int64_t coded =
      std::max(layout.coded_pixels, std::int64_t{layout.width} * layout.height);
  if (coded / 4 > max_pixels) {
    return Error(ErrorCode::kResourceExhausted, "the cells of its picture are too large");
  }
  const std::int64_t each = coded * (layout.is_deep ? bytes.deep : bytes.shallow) / pixels + 1;
  if (each > INT32_MAX) return corrupt("its picture is far larger than what is shown of it");
  shape.channels = static_cast<std::int32_t>(each);
  return {};
}

// Returns the EXIF orientation of a picture that is turned by 90 degrees `turns` times and then
// mirrored, as Pillow counts them.
std::uint8_t orientation_of(std::uint8_t turns, bool mirrors, std::uint8_t axis) {
  constexpr std::uint8_t kPlain[4] = {1, 8, 3, 6};
  constexpr std::uint8_t kTopBottom[4] = {4, 5, 2, 7};
  constexpr std::uint8_t kLeftRight[4] = {2, 7, 4, 5};
  if (!mirrors) return kPlain[turns];
  return axis == 0 ? kTopBottom[turns] : kLeftRight[turns];
}

}  // namespace

Result<PartShape> read_heic_header(HeaderWindow& window, std::int64_t max_pixels) {
  ISOCOST_ASSIGN(const HeifLayout layout, read_heif_layout(window));
  ISOCOST_TRY(check_codec(layout, HeifCodec::kHevc));
  PartShape shape;  // libheif carries out all steps, so that the picture is upright.
  shape.width = layout.width;
  shape.height = layout.height;
  for (std::size_t i = 0; i < layout.steps; ++i) {
    const HeifStep& step = layout.step.at(i);
    if (step.kind == HeifStep::Kind::kCrop) {
      shape.width = step.width;
      shape.height = step.height;
    } else if (step.kind == HeifStep::Kind::kRotate && step.value % 2 == 1) {
      std::swap(shape.width, shape.height);
    }
  }
  ISOCOST_TRY(take_memory(layout, kHevcBytes, max_pixels, shape));
  return shape;
}

Result<PartShape> read_avif_header(HeaderWindow& window, std::int64_t max_pixels) {
  ISOCOST_ASSIGN(const HeifLayout layout, read_heif_layout(window));
  ISOCOST_TRY(check_codec(layout, HeifCodec::kAv1));
  PartShape shape;
  shape.width = layout.width;
  shape.height = layout.height;
  std::uint8_t turns = 0;
  std::uint8_t axis = 0;
  bool mirrors = false;
  for (std::size_t i = 0; i < layout.steps; ++i) {
    const HeifStep& step = layout.step.at(i);
    if (step.kind == HeifStep::Kind::kRotate) turns = step.value;
    if (step.kind == HeifStep::Kind::kMirror) {
      mirrors = true;
      axis = step.value;
    }
  }
  shape.orientation = orientation_of(turns, mirrors, axis);
  ISOCOST_TRY(take_memory(layout, kAv1Bytes, max_pixels, shape));
  return shape;
}

}  // namespace isocost
