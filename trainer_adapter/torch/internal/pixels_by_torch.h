#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "trainer_adapter/normalise.h"

namespace isocost {

inline constexpr std::int64_t kPixelChannels = 3;

/// Returns a size as libtorch has sizes.
inline std::int64_t signed_size(std::size_t size) { return static_cast<std::int64_t>(size); }

// These functions compute what PixelNormaliser gives, on any device: `table` is float32 [3, 256].
// The patches must have the shapes that its functions ask for.

at::Tensor rows_by_torch(const at::Tensor& table, const at::Tensor& patches, PatchFrames frames);
at::Tensor pictures_by_torch(const at::Tensor& table, const at::Tensor& patches,
                             const PictureLayout& layout);

}  // namespace isocost
