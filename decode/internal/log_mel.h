#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "decode/internal/audio.h"

namespace isocost {

inline constexpr std::int64_t kMelFft = 400;

/// Log-mel spectrogram of one window of 16 kHz samples: a frame each 160 samples, its centre on the
/// frame's first sample (reflected at both ends), periodic Hann window of 400, power, `bins` Slaney
/// mel filters from 0 to 8 kHz, log10 not below 1e-10, not below the window's maximum - 8, then
/// (x + 4) / 4. `samples` has 160 * frames entries, at least 640; `rows` `bins` * frames, or more:
/// further rows are those of silence. Computes on the calling thread. Errors: kInvalidArgument
/// (sizes, other bins than 80 or 128), kInternal.
Status log_mel(std::span<const float> samples, std::span<float> rows, std::int64_t bins = kMelBins);

}  // namespace isocost
