#include "decode/internal/exact_image.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "decode/internal/image_codecs.h"
#include "decode/internal/orientation.h"
#include "decode/internal/patchify.h"

namespace isocost {
namespace {

constexpr std::uint8_t kUpright = 1;
constexpr std::int32_t kInFull = 1;

// Whether its sides are exchanged where it is displayed.
bool lies(const PartShape& shape) { return shape.orientation > 4; }

// The stored picture as it is displayed.
void turn(Pixels& pixels, const PartShape& shape) {
  if (shape.orientation == kUpright) return;
  const PixelWalk walk =
      pixel_walk(shape.orientation, pixels.width, pixels.height, std::ptrdiff_t{pixels.width} * 3);
  std::vector<std::uint8_t> displayed(pixels.rgb.size());
  std::int32_t width = pixels.width;
  std::int32_t height = pixels.height;
  if (lies(shape)) std::swap(width, height);
  copy_turned(pixels.rgb.data(), walk, width, height, displayed);
  pixels = {width, height, std::move(displayed)};
}

// What a framing's part has of the resized picture.
PixelArea within(const Framing& framing) {
  const PixelArea& part = framing.part;
  const std::int32_t left = std::max(part.x, 0);
  const std::int32_t top = std::max(part.y, 0);
  return {left, top, std::min(part.x + part.width, framing.width) - left,
          std::min(part.y + part.height, framing.height) - top};
}

// A picture of the grid's size, with `pixels` in place and black around them.
Result<std::vector<std::uint8_t>> on_black(const Pixels& pixels, std::int32_t x, std::int32_t y,
                                           PatchGrid grid) {
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(grid.width(), grid.height(), 3));
  std::vector<std::uint8_t> canvas(bytes);
  const std::ptrdiff_t row = std::ptrdiff_t{pixels.width} * 3;
  for (std::ptrdiff_t i = 0; i < pixels.height; ++i) {
    std::copy_n(pixels.rgb.begin() + i * row, row,
                canvas.begin() + ((y + i) * grid.width() + x) * 3);
  }
  return canvas;
}

}  // namespace

Framing whole(PatchGrid grid) {
  return {grid.width(), grid.height(), {0, 0, grid.width(), grid.height()}};
}

Result<Pixels> displayed_image(const ByteSource& source, const PartShape& shape,
                               const Framing& framing, PictureDecoding decoding) {
  std::int32_t divisor = kInFull;
  if (decoding.exactness == Exactness::kFast) {
    divisor = lies(shape) ? jpeg_divisor(shape.height, shape.width, framing.height, framing.width)
                          : jpeg_divisor(shape.width, shape.height, framing.width, framing.height);
  }
  ISOCOST_ASSIGN(Pixels pixels, decode_image(source, shape, divisor, decoding.alpha));
  turn(pixels, shape);
  return pixels;
}

Status framed_patches(const Pixels& displayed, const Framing& framing, PatchGrid grid,
                      ExactResize resize, std::span<std::byte> patches) {
  return framed_patches({displayed.rgb, displayed.width, displayed.height}, framing, grid, resize,
                        patches);
}

Status framed_patches(PixelView displayed, const Framing& framing, PatchGrid grid,
                      ExactResize resize, std::span<std::byte> patches, FrameSlot slot) {
  const PixelArea seen = within(framing);
  if (seen.width <= 0 || seen.height <= 0) {
    std::ranges::fill(patches, std::byte{0});
    return {};
  }
  Pixels pixels{seen.width, seen.height, {}};
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(seen.width, seen.height, 3));
  pixels.rgb.resize(bytes);
  pillow_resize_part(displayed.rgb, displayed.width, displayed.height, pixels.rgb, framing.width,
                     framing.height, seen, resize.filter, resize.order);
  if (seen.width != grid.width() || seen.height != grid.height()) {
    ISOCOST_ASSIGN(pixels.rgb,
                   on_black(pixels, seen.x - framing.part.x, seen.y - framing.part.y, grid));
  }
  patchify(pixels.rgb, kUpright, grid, patches, slot);
  return {};
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

Status exact_image_patches(const ByteSource& source, const PartShape& shape, PatchGrid grid,
                           ExactResize resize, PictureDecoding decoding,
                           std::span<std::byte> patches) {
  ISOCOST_ASSIGN(const Pixels displayed, displayed_image(source, shape, whole(grid), decoding));
  return framed_patches(displayed, whole(grid), grid, resize, patches);
}

std::int64_t framing_bytes(const PartShape& shape, const Framing& framing, PatchGrid grid,
                           ExactResize resize) {
  const PixelArea seen = within(framing);
  if (seen.width <= 0 || seen.height <= 0) return 0;
  const std::int64_t part = std::int64_t{seen.width} * seen.height * 3;
  const bool is_framed = seen.width != grid.width() || seen.height != grid.height();
  const std::int64_t canvas = is_framed ? std::int64_t{grid.width()} * grid.height() * 3 : 0;
  return part + canvas +
         pillow_resize_part_working_set_bytes(shape.width, shape.height, framing.width,
                                              framing.height, seen, resize.filter, resize.order);
}

std::int64_t framed_working_set_bytes(const PartShape& shape, const Framing& framing,
                                      PatchGrid grid, ExactResize resize) {
  const std::int64_t displayed = std::int64_t{shape.width} * shape.height * 3;
  return image_decoding_bytes(shape, kInFull) + (shape.orientation == kUpright ? 0 : displayed) +
         framing_bytes(shape, framing, grid, resize);
}

std::int64_t squared_working_set_bytes(const PartShape& shape, PatchGrid grid, std::int32_t side,
                                       ExactResize resize) {
  PartShape square = shape;
  square.width = square.height = std::max(shape.width, shape.height);
  const std::int64_t pixels = std::int64_t{square.width} * square.width;
  const Framing framing{side, side, {0, 0, side, side}};
  return framed_working_set_bytes(shape, framing, grid, resize) +
         std::min(pixels, kMostSquarePixels) * 3 +
         pillow_resize_part_working_set_bytes(square.width, square.height, side, side, framing.part,
                                              resize.filter, resize.order);
}

std::int64_t exact_image_working_set_bytes(const PartShape& shape, PatchGrid grid,
                                           ExactResize resize) {
  return framed_working_set_bytes(shape, whole(grid), grid, resize);
}

}  // namespace isocost
