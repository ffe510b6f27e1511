#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// What each of the 256 values of a channel becomes, red first: made with the arithmetic of a
/// model's processor, the result is equal to the bit.
using PixelTable = std::span<const float, std::size_t{3} * 256>;

/// How many frames a model's patch spans.
struct PatchFrames {
  std::size_t given = 1;   ///< Rows of `vision.patches` that are one patch of a video.
  std::size_t copies = 1;  ///< How often each is repeated, as a picture stands for several frames.
};

/// Normalises rows of packed RGB pixels, as `vision.patches` has them. `rows` is uint8 [n, given,
/// pixels, 3], `into` float32 [n, 3, given, copies, pixels]: the channels apart. Thread-safe;
/// computes on the calling thread.
void normalise_pixels(std::span<const std::uint8_t> rows, std::size_t pixels, PixelTable table,
                      PatchFrames frames, std::span<float> into);

}  // namespace isocost
