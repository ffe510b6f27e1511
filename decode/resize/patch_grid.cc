#include "decode/resize/patch_grid.h"

#include <cstdint>

namespace isocost {

PatchGrid covering_grid(std::int64_t width, std::int64_t height) {
  const auto patches = [](std::int64_t side) {
    return static_cast<std::int32_t>(2 * ((side + kGroupSide - 1) / kGroupSide));
  };
  return {patches(height), patches(width)};
}

}  // namespace isocost
