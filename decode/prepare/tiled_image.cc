#include "decode/prepare/tiled_image.h"

#include <algorithm>

namespace isocost {

Status add_tiles(const Pixels& displayed, std::span<const Framing> tiles, PatchGrid grid,
                 ExactResize resize, SampleTensors& to, const DecodeLimit& limit) {
  for (const Framing& tile : tiles) {
    ISOCOST_TRY(framed_patches(displayed, tile, grid, resize, to.next_image(grid), limit));
  }
  return {};
}

std::int64_t tiled_working_set_bytes(const PartShape& shape, std::span<const Framing> tiles,
                                     ExactResize resize) {
  std::int64_t most = 0;
  for (const Framing& tile : tiles) {
    most = std::max(most, framed_working_set_bytes(shape, tile, resize));
  }
  return most;
}

}  // namespace isocost
