#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// What each of the 256 values of a channel becomes, red first: made with the arithmetic of a
/// model's processor, the result is equal to the bit.
using PixelTable = std::span<const float, std::size_t{3} * 256>;

/// Normalises rows of packed RGB pixels, as `vision.patches` has them. `rows` is uint8 [n, pixels,
/// 3], `into` float32 [n, 3, copies, pixels]: the channels apart, each `copies` times in a row, as
/// models take pictures that stand for several frames. Thread-safe; computes on the calling thread.
void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels, PixelTable table,
                      std::size_t copies, std::span<float> into);

}  // namespace isocost
