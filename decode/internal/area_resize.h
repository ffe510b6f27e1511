#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isocost {

/// Makes packed RGB smaller: each new pixel is the mean of the area that it covers, in integer
/// arithmetic, so that every machine gives the same bytes. Within 1 of 255 of the exact mean. No
/// side of the target is larger than before or below 1; `from` and `to` hold width * height * 3
/// bytes each.
void area_resize(std::span<const std::uint8_t> from, std::int32_t from_width,
                 std::int32_t from_height, std::span<std::uint8_t> to, std::int32_t to_width,
                 std::int32_t to_height);

/// What a new position takes of the old ones: `weights` of those from `first` on, which add up to
/// 2^kUnitBits.
struct AreaTaps {
  static constexpr std::uint32_t kUnitBits = 15;
  struct Tap {
    std::int32_t first = 0;
    std::int32_t count = 0;
    std::size_t weights = 0;  ///< Where they begin in `weights`.
  };
  std::vector<Tap> taps;
  std::vector<std::uint16_t> weights;
};
AreaTaps area_taps(std::int32_t from, std::int32_t to);

}  // namespace isocost
