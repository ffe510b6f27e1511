#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Number of frames that a processor of transformers takes of a video. Either `fps` or `num_frames`
/// is set.
struct FrameSampling {
  double fps = 0;               ///< Frames a second; 0: `num_frames` is set.
  std::int64_t num_frames = 0;  ///< Number of frames; 0: `fps` is set.
  std::int64_t min_frames = 0;  ///< Bounds with `fps`; frames_in_slices has none.
  std::int64_t max_frames = 0;
};

/// Returns the frames a second of a video, as float(Fraction) computes them. Errors:
/// kInvalidArgument for a shape that no probe makes.
Result<double> frames_a_second(const PartShape& shape);

/// Returns the times at which these frames are shown, as processors compute them: by the mean rate.
/// Returns nothing for a shape that cannot be sampled.
std::vector<double> seconds_of(const Result<std::vector<std::int64_t>>& frames,
                               const PartShape& shape);

/// Return the numbers of the frames that processors' sample_frames choose with do_sample_frames, in
/// ascending order, exact to the last bit of its arithmetic. A video that is too short for
/// `num_frames`, or for a pair of frames, gives the frames that it has, where transformers fails.
/// Errors: those of frames_a_second.
///
/// Samples like Qwen2VLVideoProcessor: an even number, at equal steps from the first on.
Result<std::vector<std::int64_t>> frames_in_pairs(const PartShape& shape, const FrameSampling& how);
/// Samples like Qwen3VLVideoProcessor: from the first to the last.
Result<std::vector<std::int64_t>> frames_to_the_last(const PartShape& shape,
                                                     const FrameSampling& how);
/// Samples like InternVLVideoProcessor: in the middle of equal slices.
Result<std::vector<std::int64_t>> frames_in_slices(const PartShape& shape,
                                                   const FrameSampling& how);
/// Samples like BaseVideoProcessor and LLaVA-OneVision's: `count` frames, at equal steps from the
/// first on. A video of fewer frames repeats them, so the result always has `count`.
Result<std::vector<std::int64_t>> frames_at_steps(const PartShape& shape, std::int64_t count);

}  // namespace isocost
