#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// Places of displayed pixels among stored packed RGB: a step to the right and a step down are each
/// a constant number of bytes.
struct PixelWalk {
  std::ptrdiff_t start;
  std::ptrdiff_t along;
  std::ptrdiff_t down;
};

/// Returns whether width and height are exchanged when a picture is displayed. `orientation` is
/// EXIF's number.
constexpr bool exchanges_sides(std::uint8_t orientation) { return orientation > 4; }

/// Returns the walk over a picture. `orientation` is EXIF's number (1..8), the sides are as stored,
/// `stride` is in bytes.
PixelWalk pixel_walk(std::uint8_t orientation, std::int32_t stored_width,
                     std::int32_t stored_height, std::ptrdiff_t stride);

/// Copies a picture as it is displayed: `to` has `width` × `height` displayed pixels, packed.
void copy_turned(const std::uint8_t* stored, const PixelWalk& walk, std::int32_t width,
                 std::int32_t height, std::span<std::uint8_t> to);

}  // namespace isocost
