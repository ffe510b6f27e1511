#include "decode/prepare/exact_image.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decode/image/image_codecs.h"
#include "decode/image/jpeg_rows.h"
#include "decode/resize/limited_rows.h"
#include "decode/resize/orientation.h"
#include "decode/resize/patchify.h"
#include "decode/resize/pixel_rows.h"
#include "decode/resize/turned_rows.h"

namespace isocost {
namespace {

constexpr std::uint8_t kUpright = 1;
constexpr std::int32_t kInFull = 1;

// Turns the stored picture as it is displayed.
void turn(Pixels& pixels, const PartShape& shape) {
  if (shape.orientation == kUpright) return;
  const PixelWalk walk =
      pixel_walk(shape.orientation, pixels.width, pixels.height, std::ptrdiff_t{pixels.width} * 3);
  std::vector<std::uint8_t> displayed(pixels.rgb.size());
  std::int32_t width = pixels.width;
  std::int32_t height = pixels.height;
  if (exchanges_sides(shape.orientation)) std::swap(width, height);
  copy_turned(pixels.rgb.data(), walk, width, height, displayed);
  pixels = {width, height, std::move(displayed)};
}

// Returns the part of the resized picture that lies in the framing's part.
PixelArea within(const Framing& framing) {
  const PixelArea& part = framing.part;
  const std::int32_t left = std::max(part.x, 0);
  const std::int32_t top = std::max(part.y, 0);
  return {left, top, std::min(part.x + part.width, framing.width) - left,
          std::min(part.y + part.height, framing.height) - top};
}

// Makes patches of the rows that pillow_resize_rows makes of a picture.
Status patches_of_rows(RowSource& source, const Framing& framing, PatchGrid grid,
                       ExactResize resize, std::span<std::byte> patches, FrameSlot slot,
                       const DecodeLimit& limit) {
  const PixelArea seen = within(framing);
  if (seen.width <= 0 || seen.height <= 0) {
    std::ranges::fill(patches, std::byte{0});
    return {};
  }
  PatchRows sink(grid, patches, slot, seen.x - framing.part.x, seen.y - framing.part.y, seen.width,
                 seen.height);
  LimitedRows rows(source, limit);
  return pillow_resize_rows(rows, framing.width, framing.height, seen, resize, sink);
}

ImageDecoding image_decoding(const PartShape& shape, const Framing& framing,
                             PictureDecoding decoding) {
  ImageDecoding how{.alpha = decoding.alpha, .truncated = decoding.truncated};
  if (decoding.exactness == Exactness::kExact) return how;
  how.exactness = decoding.exactness;
  how.divisor = exchanges_sides(shape.orientation)
                    ? jpeg_divisor(shape.height, shape.width, framing.height, framing.width)
                    : jpeg_divisor(shape.width, shape.height, framing.width, framing.height);
  return how;
}

Result<Pixels> stored_image(const ByteSource& source, const PartShape& shape,
                            const Framing& framing, PictureDecoding decoding,
                            const DecodeLimit& limit) {
  return decode_image(source, shape, image_decoding(shape, framing, decoding), limit);
}

// Returns whether rows are needed in the order in which they are decoded.
bool is_streamed(const PartShape& shape) {
  return shape.format == MediaFormat::kJpeg && shape.orientation == kUpright;
}

}  // namespace

Framing whole(PatchGrid grid) {
  return {grid.width(), grid.height(), {0, 0, grid.width(), grid.height()}};
}

Result<Pixels> displayed_image(const ByteSource& source, const PartShape& shape,
                               const Framing& framing, PictureDecoding decoding,
                               const DecodeLimit& limit) {
  ISOCOST_ASSIGN(Pixels pixels, stored_image(source, shape, framing, decoding, limit));
  turn(pixels, shape);
  return pixels;
}

Status framed_patches(const Pixels& displayed, const Framing& framing, PatchGrid grid,
                      ExactResize resize, std::span<std::byte> patches, const DecodeLimit& limit) {
  return framed_patches({displayed.rgb, displayed.width, displayed.height}, framing, grid, resize,
                        patches, {}, limit);
}

Status framed_patches(PixelView displayed, const Framing& framing, PatchGrid grid,
                      ExactResize resize, std::span<std::byte> patches, FrameSlot slot,
                      const DecodeLimit& limit) {
  MemoryRows rows(displayed.rgb, displayed.width, displayed.height);
  return patches_of_rows(rows, framing, grid, resize, patches, slot, limit);
}

Result<Pixels> made_square(Pixels displayed, std::array<std::uint8_t, 3> colour) {
  const std::int32_t side = std::max(displayed.width, displayed.height);
  if (displayed.width == displayed.height) return displayed;
  if (std::int64_t{side} * side > kMostSquarePixels) {
    return Error(ErrorCode::kResourceExhausted, "a picture of " + std::to_string(displayed.width) +
                                                    "x" + std::to_string(displayed.height) +
                                                    " is too long to be made square");
  }
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(side, side, 3));
  Pixels square{side, side, std::vector<std::uint8_t>(bytes)};
  for (std::size_t i = 0; i < bytes; ++i) square.rgb[i] = colour[i % 3];
  const std::ptrdiff_t row = std::ptrdiff_t{displayed.width} * 3;
  const std::ptrdiff_t left = (side - displayed.width) / 2;
  const std::ptrdiff_t top = (side - displayed.height) / 2;
  for (std::ptrdiff_t y = 0; y < displayed.height; ++y) {
    std::copy_n(displayed.rgb.begin() + y * row, row,
                square.rgb.begin() + ((top + y) * side + left) * 3);
  }
  return square;
}

Status framed_image_patches(const ByteSource& source, const PartShape& shape,
                            const Framing& framing, PatchGrid grid, ExactResize resize,
                            PictureDecoding decoding, std::span<std::byte> patches,
                            const DecodeLimit& limit) {
  if (static_cast<std::int64_t>(patches.size()) != grid.bytes()) {
    return Error(ErrorCode::kInvalidArgument, "framed_image_patches: room for another grid");
  }
  if (shape.format == MediaFormat::kJpeg) resize.exactness = decoding.exactness;
  if (!is_streamed(shape)) {
    ISOCOST_ASSIGN(const Pixels stored, stored_image(source, shape, framing, decoding, limit));
    if (shape.orientation == kUpright) {
      return framed_patches(stored, framing, grid, resize, patches, limit);
    }
    TurnedRows rows(stored.rgb, stored.width, stored.height, shape.orientation);
    return patches_of_rows(rows, framing, grid, resize, patches, {}, limit);
  }
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> file, read_image(source, shape));
  ISOCOST_ASSIGN(const std::unique_ptr<JpegRows> rows,
                 JpegRows::open(file, shape.width, shape.height,
                                image_decoding(shape, framing, decoding), limit));
  ISOCOST_TRY(patches_of_rows(*rows, framing, grid, resize, patches, {}, limit));
  return rows->finish();
}

std::int64_t framing_bytes(const PartShape& shape, const Framing& framing, ExactResize resize) {
  const PixelArea seen = within(framing);
  if (seen.width <= 0 || seen.height <= 0) return 0;
  return PatchRows::working_set_bytes(seen.width) +
         MemoryRows::working_set_bytes(shape.width, shape.height) +
         pillow_resize_part_working_set_bytes(shape.width, shape.height, framing.width,
                                              framing.height, seen, resize.filter, resize.order);
}

std::int64_t framed_working_set_bytes(const PartShape& shape, const Framing& framing,
                                      ExactResize resize) {
  const std::int64_t displayed = std::int64_t{shape.width} * shape.height * 3;
  return image_decoding_bytes(shape, kInFull) + (shape.orientation == kUpright ? 0 : displayed) +
         framing_bytes(shape, framing, resize);
}

std::int64_t squared_working_set_bytes(const PartShape& shape, std::int32_t side,
                                       ExactResize resize) {
  PartShape square = shape;
  square.width = square.height = std::max(shape.width, shape.height);
  const std::int64_t pixels = std::int64_t{square.width} * square.width;
  const Framing framing{side, side, {0, 0, side, side}};
  return framed_working_set_bytes(shape, framing, resize) +
         std::min(pixels, kMostSquarePixels) * 3 +
         pillow_resize_part_working_set_bytes(square.width, square.height, side, side, framing.part,
                                              resize.filter, resize.order);
}

std::int64_t framed_image_bytes(const PartShape& shape, const Framing& framing,
                                ExactResize resize) {
  if (is_streamed(shape)) return jpeg_rows_bytes(shape) + framing_bytes(shape, framing, resize);
  if (shape.orientation == kUpright) return framed_working_set_bytes(shape, framing, resize);
  return image_decoding_bytes(shape, kInFull) +
         TurnedRows::working_set_bytes(shape.width, shape.height) +
         framing_bytes(shape, framing, resize);
}

}  // namespace isocost
