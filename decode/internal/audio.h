#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/sample_shape.h"

namespace isocost {

/// The recipe's audio: 16 kHz mono, a log-mel frame each 10 ms, windows of at most 30 s.
inline constexpr std::int64_t kRecipeSampleRate = 16'000;
inline constexpr std::int64_t kMelHop = 160;
inline constexpr std::int64_t kMelBins = 128;
inline constexpr std::int64_t kWindowMelFrames = 3000;

/// Header -> shape for kWav, kFlac, kOggVorbis, kOpus, kMp3: sample_rate, channels, frames. Reads a
/// few KB; an MP3 without a length in its header is walked frame header by frame header, and a FLAC
/// stream of unknown length is decoded once. Const-safe. Errors: kCorrupt (cut off, no samples, out
/// of range), kUnsupported (another codec in the container), kIo.
Result<PartShape> probe_audio(const ByteSource& source, MediaFormat format);

/// 16 kHz mono samples that the recipe uses of a shape, cut at `max_seconds`; integer arithmetic.
/// At least 1 where the shape has a sample and `max_seconds` > 0.
std::int64_t audio_samples_16k(const PartShape& shape, double max_seconds);

/// How a shape's audio is cut; both the load and the tensors follow it.
struct AudioPlan {
  std::vector<std::int32_t> window_frames;  ///< Mel frames of each <= 30 s window, multiples of 4.
  std::int64_t samples = 0;                 ///< 16 kHz samples behind them, before padding.
};
AudioPlan plan_audio(const PartShape& shape, double max_seconds);

/// Decodes, mixes to mono, resamples, computes log-mel: fills float32 rows of 128 into `mel`, whose
/// size must be exactly sum(window_frames) * 128. Decodes no further than the plan needs; computes
/// on the calling thread. Errors: kInvalidArgument (size of `mel`), kCorrupt (cut off, NaN, ends
/// more than 0.1 s before its header says), kIo. After an error `mel` holds anything.
Status audio_log_mel(const ByteSource& source, const PartShape& shape, const AudioPlan& plan,
                     std::span<float> mel);

/// Upper bound of the memory that audio_log_mel takes beside `mel`.
std::int64_t audio_working_set_bytes(const PartShape& shape, double max_seconds);

}  // namespace isocost
