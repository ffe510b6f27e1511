#pragma once

#include <cstdint>
#include <vector>

#include "decode/resize/patch_grid.h"

namespace isocost {

// The sizes that the recipe native28 chooses.

/// Returns the grid of an image: each side rounded to the nearest multiple of 28 pixels, at least
/// 28. If that gives more than `max_patches` >= 4 patches, returns the largest grid of about the
/// same aspect ratio within the limit. Sides are > 0. Integer arithmetic.
PatchGrid patch_grid(std::int32_t width, std::int32_t height, std::int32_t max_patches);

/// Returns the number of frames, min(max_frames, max(1, floor(duration × fps))). The duration is
/// divided into this number of equal slices, and a frame is sampled in the middle of each.
std::int64_t frame_count(std::int64_t duration_us, double fps, std::int32_t max_frames);
std::vector<std::int64_t> frame_times_us(std::int64_t duration_us, std::int64_t count);

}  // namespace isocost
