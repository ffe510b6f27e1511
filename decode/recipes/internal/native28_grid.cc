#include "decode/recipes/internal/native28_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace isocost {
namespace {

/// Returns floor(sqrt(value)) for 0 <= value < 2^62.
std::int64_t integer_sqrt(std::int64_t value) {
  auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

std::int64_t groups_along(std::int32_t pixels) {
  return std::max<std::int64_t>(1, (std::int64_t{pixels} + kGroupSide / 2) / kGroupSide);
}

}  // namespace

PatchGrid patch_grid(std::int32_t width, std::int32_t height, std::int32_t max_patches) {
  const std::int64_t most = std::max<std::int64_t>(1, max_patches / 4);
  std::int64_t across = groups_along(width);
  std::int64_t down = groups_along(height);
  if (across * down > most) {
    // Solves across / down = width / height and across × down = most, both rounded down; if one is
    // below 1, it becomes 1, and the other is bounded by `most`
    across =
        std::clamp<std::int64_t>(integer_sqrt(most * width / height), 1, std::min(across, most));
    down = std::clamp<std::int64_t>(integer_sqrt(most * height / width), 1, std::min(down, most));
  }
  return {static_cast<std::int32_t>(2 * down), static_cast<std::int32_t>(2 * across)};
}

std::int64_t frame_count(std::int64_t duration_us, double fps, std::int32_t max_frames) {
  __extension__ using Wide = __int128;
  constexpr double kMillion = 1e6;
  const auto frames_a_million_s = static_cast<Wide>(std::llround(fps * kMillion));
  const Wide frames = static_cast<Wide>(duration_us) * frames_a_million_s / 1'000'000'000'000;
  return static_cast<std::int64_t>(std::clamp<Wide>(frames, 1, max_frames));
}

std::vector<std::int64_t> frame_times_us(std::int64_t duration_us, std::int64_t count) {
  __extension__ using Wide = __int128;
  std::vector<std::int64_t> times;
  times.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Wide at = static_cast<Wide>(duration_us) * (2 * i + 1) / (static_cast<Wide>(2) * count);
    times.push_back(static_cast<std::int64_t>(at));
  }
  return times;
}

}  // namespace isocost
