#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// How many frames of a video a processor of transformers takes. Of `fps` and `num_frames` one is
/// set.
struct FrameSampling {
  double fps = 0;               ///< Frames a second; 0: `num_frames`.
  std::int64_t num_frames = 0;  ///< 0: `fps`.
  std::int64_t min_frames = 0;  ///< Of `fps`, as are the most; frames_in_slices has neither.
  std::int64_t max_frames = 0;
};

/// Frames a second of a video, as float(Fraction) computes it. Errors: kInvalidArgument for a shape
/// that no probe makes.
Result<double> frames_a_second(const PartShape& shape);

/// Returns when frames of these numbers are shown, as processors count: by the mean rate. Nothing
/// for a shape that cannot be sampled.
std::vector<double> seconds_of(const Result<std::vector<std::int64_t>>& frames,
                               const PartShape& shape);

/// Return the numbers of the frames that processors' sample_frames choose with do_sample_frames, in
/// ascending order, to the last bit of its arithmetic. A video that is too short for
/// `num_frames`, or for a pair of frames, gives what it has, where transformers fails. Errors:
/// those of frames_a_second.
///
/// As Qwen2VLVideoProcessor: an even number, at equal steps from the first on.
Result<std::vector<std::int64_t>> frames_in_pairs(const PartShape& shape, const FrameSampling& how);
/// As Qwen3VLVideoProcessor: from the first to the last.
Result<std::vector<std::int64_t>> frames_to_the_last(const PartShape& shape,
                                                     const FrameSampling& how);
/// As InternVLVideoProcessor: in the middle of equal slices.
Result<std::vector<std::int64_t>> frames_in_slices(const PartShape& shape,
                                                   const FrameSampling& how);
/// As BaseVideoProcessor, and so LLaVA-OneVision's: `count` frames, at equal steps from the first
/// on. A video of fewer frames repeats them, so it is always `count`.
Result<std::vector<std::int64_t>> frames_at_steps(const PartShape& shape, std::int64_t count);

}  // namespace isocost
