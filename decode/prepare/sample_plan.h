#pragma once

#include <cstdint>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/resize/patch_grid.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tensor_plan.h"

namespace isocost {

/// A recipe's plan of one part. Only the fields of its modality are set.
struct PartPlan {
  Modality modality = Modality::kText;  ///< Set by models in directories.
  PatchGrid grid;                       ///< Grid of each picture.
  /// Pictures for the encoder: 1, an image's tiles or a video's frames (groups of `depth` frames).
  std::int64_t images = 0;
  std::int32_t depth = 1;  ///< Frames that a patch spans; each is a row of vision.patches.
  std::int64_t media = 0;  ///< Rows of vision.media: 1, or 0 for recipes without them.
  std::int64_t placeholders =
      1;  ///< Placeholders in the text; each represents an equal share of tokens and pictures.
  float rope_interval = 1;  ///< Difference between pictures' times of M-RoPE.
  AudioPlan audio;
  std::int64_t tokens = 0;  ///< Tokens of the LLM's sequence.
  std::int64_t label_tokens = 0;
  bool weighted = false;  ///< Whether tokens have weights of turns.

  std::int64_t mel_frames() const;
  /// Returns the part's contribution to the load; for the LLM, whose sequence is the sample, tokens
  /// alone.
  Load load() const;
};

/// A recipe's plan of a sample. Loads and tensors are both computed from it, so they agree.
struct SamplePlan {
  std::vector<PartPlan> parts;
  std::int64_t images = 0;
  std::int64_t patch_rows = 0;   ///< Rows of vision.patches.
  std::int64_t patch_bytes = 0;  ///< Bytes of each row.
  std::int64_t media = 0;
  std::int64_t windows = 0;
  std::int64_t mel_frames = 0;
  std::int64_t mel_bins = 0;  ///< Values of each mel frame.
  std::int64_t tokens = 0;
  std::int64_t label_tokens = 0;
  bool rope = false;      ///< Whether the model has positions of M-RoPE.
  bool weighted = false;  ///< Whether turns have weights.

  Load load() const;
  std::int64_t tensor_bytes() const;
  /// Returns the tensors that the sample has, in the order in which they are delivered.
  std::vector<TensorPlan> tensors() const;

  /// Adds a part. Errors: kResourceExhausted (sums of squared token counts, or positions of M-RoPE,
  /// would overflow). After an error the plan must not be used.
  Status add(PartPlan part);

 private:
  double rope_times_ = 0;
};

/// Checks that a picture's size keeps sums of bytes far from overflow. Errors: kInvalidArgument.
Status check_picture(const PartShape& shape);
/// Returns the error kInvalidArgument, "image part without `what`".
Error impossible_part(const PartShape& shape, const char* what);

}  // namespace isocost
