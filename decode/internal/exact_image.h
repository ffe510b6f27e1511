#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/internal/patch_grid.h"
#include "decode/internal/pillow_resize.h"
#include "decode/sample_shape.h"

namespace isocost {

/// Like image_patches, with the very bytes that a processor of transformers hands to its
/// normalisation where it is given the displayed picture in RGB: decoded in full, turned, then
/// resized as Pillow does. Errors: those of image_patches.
Status exact_image_patches(const ByteSource& source, const PartShape& shape, PatchGrid grid,
                           ExactResize resize, std::span<std::byte> patches);

/// Returns an upper bound of the memory of exact_image_patches, without `patches`.
std::int64_t exact_image_working_set_bytes(const PartShape& shape, PatchGrid grid,
                                           ExactResize resize);

}  // namespace isocost
