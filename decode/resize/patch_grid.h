#pragma once

#include <cstdint>
#include <vector>

#include "decode/shape/sample_shape.h"

namespace isocost {

inline constexpr std::int32_t kPatchSide = 14;      ///< Pixels, for most models.
inline constexpr std::int32_t kMostPatchSide = 16;  ///< Pixels, for any model.
inline constexpr std::int32_t kGroupSide =
    2 * kPatchSide;  ///< Side of 2×2 patches, which become one token.

/// Rows and columns of an image's patches, both even.
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

/// Returns the grid of an image: each side rounded to the nearest multiple of 28 pixels, at least
/// 28. If that gives more than `max_patches` >= 4 patches, returns the largest grid of about the
/// same aspect ratio within the limit. Sides are > 0. Integer arithmetic.
PatchGrid patch_grid(std::int32_t width, std::int32_t height, std::int32_t max_patches);

/// Returns the smallest grid that covers a picture of this size, which may reach beyond it.
PatchGrid covering_grid(std::int64_t width, std::int64_t height);

/// Returns the number of frames, min(max_frames, max(1, floor(duration × fps))). The duration is
/// divided into this number of equal slices, and a frame is sampled in the middle of each.
std::int64_t frame_count(std::int64_t duration_us, double fps, std::int32_t max_frames);
std::vector<std::int64_t> frame_times_us(std::int64_t duration_us, std::int64_t count);

}  // namespace isocost
