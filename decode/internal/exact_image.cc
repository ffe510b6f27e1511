#include "decode/internal/exact_image.h"

#include <utility>
#include <vector>

#include "decode/internal/image_codecs.h"
#include "decode/internal/image_decoder.h"
#include "decode/internal/orientation.h"
#include "decode/internal/patchify.h"

namespace isocost {
namespace {

constexpr std::uint8_t kUpright = 1;
constexpr std::int32_t kInFull = 1;

// The stored picture as it is displayed, which decides what a resize rounds first.
void turn(Pixels& pixels, const PartShape& shape) {
  if (shape.orientation == kUpright) return;
  const PixelWalk walk =
      pixel_walk(shape.orientation, pixels.width, pixels.height, std::ptrdiff_t{pixels.width} * 3);
  std::vector<std::uint8_t> displayed(pixels.rgb.size());
  copy_turned(pixels.rgb.data(), walk, shape.width, shape.height, displayed);
  pixels = {shape.width, shape.height, std::move(displayed)};
}

}  // namespace

Status exact_image_patches(const ByteSource& source, const PartShape& shape, PatchGrid grid,
                           ExactResize resize, std::span<std::byte> patches) {
  ISOCOST_ASSIGN(Pixels pixels, decode_image(source, shape, kInFull));
  turn(pixels, shape);
  if (pixels.width != grid.width() || pixels.height != grid.height()) {
    ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(grid.width(), grid.height(), 3));
    std::vector<std::uint8_t> resized(bytes);
    pillow_resize(pixels.rgb, pixels.width, pixels.height, resized, grid.width(), grid.height(),
                  resize.filter, resize.order);
    pixels = {grid.width(), grid.height(), std::move(resized)};
  }
  patchify(pixels.rgb, kUpright, grid, patches);
  return {};
}

std::int64_t exact_image_working_set_bytes(const PartShape& shape, PatchGrid grid,
                                           ExactResize resize) {
  const std::int64_t displayed = std::int64_t{shape.width} * shape.height * 3;
  const std::int64_t target = std::int64_t{grid.width()} * grid.height() * 3;
  return image_decoding_bytes(shape, kInFull) + (shape.orientation == kUpright ? 0 : displayed) +
         target +
         pillow_resize_working_set_bytes(shape.width, shape.height, grid.width(), grid.height(),
                                         resize.filter, resize.order);
}

}  // namespace isocost
