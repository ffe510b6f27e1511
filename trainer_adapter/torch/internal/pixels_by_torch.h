#pragma once

#include <ATen/core/Tensor.h>

#include "trainer_adapter/normalise.h"

namespace isocost {

// These functions compute what PixelNormaliser gives, on any device: `table` is float32 [3, 256].
// The patches must have the shapes that its functions ask for.

at::Tensor rows_by_torch(const at::Tensor& table, const at::Tensor& patches, PatchFrames frames);
at::Tensor pictures_by_torch(const at::Tensor& table, const at::Tensor& patches,
                             const PictureLayout& layout);

}  // namespace isocost
