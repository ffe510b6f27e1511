#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "decode/prepare/exact_image.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/resize/patch_grid.h"
#include "decode/resize/pillow_resize.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// A video as a model sees it.
struct ExactVideo {
  std::span<const std::int64_t> indices;  ///< Numbers of its frames, ascending.
  Framing framing;                        ///< Framing of each frame.
  PatchGrid grid;
  std::int32_t depth = 1;  ///< Frames that a patch spans.
  /// Width is resized before height whatever resize_order says, since transformers resizes frames
  /// only by torchvision.
  ResampleFilter filter;
};

/// Decodes the frames and appends the patches that framed_patches makes of them: a picture for
/// every `depth` frames, of which an incomplete last group repeats its last frame. One frame is
/// held at a time. Errors: those of exact_video_frames.
Status add_exact_video(const PartBytes& bytes, const ExactVideo& video, SampleTensors& to,
                       const DecodeLimit& limit);

/// Returns an upper bound of the memory of add_exact_video, without the patches.
std::int64_t exact_video_bytes(const PartShape& shape, const Framing& framing,
                               ResampleFilter filter);

}  // namespace isocost
