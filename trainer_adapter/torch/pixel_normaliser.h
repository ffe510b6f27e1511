#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "trainer_adapter/normalise.h"

namespace isocost {

/// Makes a model's float32 values from the bytes of pixels, on the device of the bytes. On the CPU
/// they are those of the model's processor bit by bit, on another device what libtorch computes
/// there by the same arithmetic. Immutable, so thread-safe; computes on the calling thread.
class PixelNormaliser {
 public:
  explicit PixelNormaliser(const PixelArithmetic& arithmetic);
  /// Takes the numbers of the processor in a model's directory. Throws isocost::Exception with the
  /// errors of PixelArithmetic::of_model.
  explicit PixelNormaliser(const std::filesystem::path& model_directory);

  /// Returns float32 [patches, 3, frames, pixels], the channels apart, of rows of "vision_patches",
  /// uint8 [patches × frames.given, pixels × 3]; frames is frames.given × frames.copies. The
  /// defaults are those of a tower without temporal patches; Qwen's takes {1, 2} for a picture and
  /// {2, 1} for a video.
  at::Tensor rows(const at::Tensor& patches, PatchFrames frames = {}) const;

  /// Returns pictures of one size, float32 [pictures, 3, height, width], of the patches that they
  /// were cut into, uint8 [pictures × layout.patches(), layout.patch_bytes()].
  at::Tensor pictures(const at::Tensor& patches, const PictureLayout& layout) const;

 private:
  PixelValues values_;
  at::Tensor table_;  // float32 [3, 256] on the CPU
};

}  // namespace isocost
