#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trainer_adapter/normalise.h"

namespace isocost {

/// Computes PixelValues::of in vectors. If the processor does not fuse multiplication and
/// addition, some values may differ from the arithmetic's in their last bit. Returns false, and
/// computes nothing, where the processor has no vectors that this was compiled for.
bool compute_pixels(const std::uint8_t* rgb, std::size_t pixels, const PixelArithmetic& arithmetic,
                    const std::array<float*, 3>& rows);

}  // namespace isocost
