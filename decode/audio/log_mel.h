#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace isocost {

inline constexpr std::int64_t kMelFft = 400;

/// Computes the log-mel spectrogram of one window of 16 kHz samples: a frame each 160 samples,
/// centred on the frame's first sample (reflected at both ends), periodic Hann window of 400,
/// power, 128 Slaney mel filters from 0 to 8 kHz, log10 not below 1e-10, not below the window's
/// maximum - 8, then (x + 4) / 4. `samples` has 160 * frames entries, at least 640; `rows` 128 *
/// frames. Computes on the calling thread, in float32. Errors: kInvalidArgument (sizes).
Status log_mel(std::span<const float> samples, std::span<float> rows);

/// Computes log_mel in float64, with 80 or 128 filters. `rows` may have more than `bins` * frames
/// values: further rows are those of silence. Errors: kInvalidArgument (sizes, other bins).
Status exact_log_mel(std::span<const float> samples, std::int64_t bins, std::span<float> rows);

}  // namespace isocost
