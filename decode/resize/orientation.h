#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// Where displayed pixels lie among stored packed RGB: a step to the right and one down are each a
/// constant number of bytes.
struct PixelWalk {
  std::ptrdiff_t start;
  std::ptrdiff_t along;
  std::ptrdiff_t down;
};

/// Whether width and height are exchanged where a picture is displayed. `orientation` as EXIF
/// counts.
constexpr bool exchanges_sides(std::uint8_t orientation) { return orientation > 4; }

/// `orientation` as EXIF counts (1..8), the sides as stored, `stride` in bytes.
PixelWalk pixel_walk(std::uint8_t orientation, std::int32_t stored_width,
                     std::int32_t stored_height, std::ptrdiff_t stride);

/// Copies a picture as it is displayed: `to` has `width` × `height` displayed pixels, packed.
void copy_turned(const std::uint8_t* stored, const PixelWalk& walk, std::int32_t width,
                 std::int32_t height, std::span<std::uint8_t> to);

}  // namespace isocost
