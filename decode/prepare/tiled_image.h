#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "decode/image/image_decoder.h"
#include "decode/prepare/exact_image.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/resize/patch_grid.h"
#include "decode/resize/pillow_resize.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Appends the patches that framed_patches makes of each tile of a picture, in their order: a
/// picture for every tile. Errors: those of framed_patches.
Status add_tiles(const Pixels& displayed, std::span<const Framing> tiles, PatchGrid grid,
                 ExactResize resize, SampleTensors& to, const DecodeLimit& limit);

/// Returns an upper bound of the memory of displayed_image and add_tiles, one after the other,
/// without the patches.
std::int64_t tiled_working_set_bytes(const PartShape& shape, std::span<const Framing> tiles,
                                     ExactResize resize);

}  // namespace isocost
