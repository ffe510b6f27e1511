#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/internal/patch_grid.h"
#include "decode/sample_shape.h"

namespace isocost {

/// Decoded pixels as they are stored, before EXIF turns them: [height, width, 3] uint8 RGB, packed.
struct Pixels {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Of a side of the target that the picture must keep: by how much JPEG's inverse transform may
/// already scale down, 1, 2, 4 or 8. Sides are those stored.
std::int32_t jpeg_divisor(std::int32_t width, std::int32_t height, std::int32_t target_width,
                          std::int32_t target_height);

/// Decodes, scales to the grid's size, turns as EXIF says, cuts into patches: fills the grid's
/// patches of 588 bytes in `patches`, whose size must be just that. Computes on the calling thread.
/// Errors: kCorrupt (cut off, damaged, of another size than the shape says), kUnsupported, kIo.
Status image_patches(const ByteSource& source, const PartShape& shape, PatchGrid grid,
                     std::span<std::byte> patches);

/// Upper bound of the memory that image_patches takes beside `patches`.
std::int64_t image_working_set_bytes(const PartShape& shape, PatchGrid grid);

}  // namespace isocost
