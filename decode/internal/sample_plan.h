#pragma once

#include <cstdint>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "decode/internal/audio.h"
#include "decode/internal/patch_grid.h"
#include "decode/sample_shape.h"

namespace isocost {

/// A recipe's plan of one part. Only the fields of its modality are set.
struct PartPlan {
  PatchGrid grid;           ///< Of each picture.
  std::int64_t images = 0;  ///< Pictures for the encoder: 1, an image's tiles or a video's frames.
  AudioPlan audio;
  std::int64_t tokens = 0;  ///< What the part adds to the LLM's sequence.
  std::int64_t label_tokens = 0;

  std::int64_t mel_frames() const;
};

/// A recipe's plan of a sample. Loads and tensors are both computed from it, so they agree.
struct SamplePlan {
  std::vector<PartPlan> parts;
  std::int64_t images = 0;
  std::int64_t patches = 0;
  std::int64_t windows = 0;
  std::int64_t mel_frames = 0;
  std::int64_t tokens = 0;
  std::int64_t label_tokens = 0;

  Load load() const;
  std::int64_t tensor_bytes() const;

  /// Adds a part. Errors: kResourceExhausted (sums of squared token counts would overflow). After
  /// an error the plan must not be used.
  Status add(PartPlan part);
};

/// Checks that a picture's size is within what keeps sums of bytes far from overflow. Errors:
/// kInvalidArgument.
Status check_picture(const PartShape& shape);
/// Errors: kInvalidArgument, "image part without `what`".
Error impossible_part(const PartShape& shape, const char* what);

}  // namespace isocost
