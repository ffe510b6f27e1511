#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trainer_adapter/normalise.h"

namespace isocost {

/// PixelValues::of, computed in vectors. Where the processor does not fuse multiplication and
/// addition, some values may not be to the bit those of the arithmetic. Returns false, and computes
/// nothing, where it has no vectors that this was compiled for.
bool compute_pixels(const std::uint8_t* rgb, std::size_t pixels, const PixelArithmetic& arithmetic,
                    const std::array<float*, 3>& rows);

}  // namespace isocost
