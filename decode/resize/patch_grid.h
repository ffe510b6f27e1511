#pragma once

#include <cstdint>

#include "decode/shape/media_formats.h"

namespace isocost {

inline constexpr std::int32_t kPatchSide = 14;      ///< Pixels, for most models.
inline constexpr std::int32_t kMostPatchSide = 16;  ///< Pixels, for any model.
inline constexpr std::int32_t kGroupSide =
    2 * kPatchSide;  ///< Side of 2×2 patches, which become one token.

/// Rows and columns of a picture's patches, both even. How many a picture gets is the decision of
/// its recipe: `plan_medium` of each family in decode/recipes/.
struct PatchGrid {
  std::int32_t rows = 0;
  std::int32_t columns = 0;
  std::int32_t side = kPatchSide;  ///< Side of a patch in pixels.

  std::int64_t patches() const { return std::int64_t{rows} * columns; }
  std::int64_t tokens() const { return patches() / 4; }
  std::int32_t width() const { return columns * side; }
  std::int32_t height() const { return rows * side; }
  std::int64_t patch_bytes() const { return std::int64_t{3} * side * side; }
  std::int64_t bytes() const { return patches() * patch_bytes(); }
  bool operator==(const PatchGrid&) const = default;
};

/// Returns the smallest grid that covers a picture of this size, which may reach beyond it.
PatchGrid covering_grid(std::int64_t width, std::int64_t height);

}  // namespace isocost
