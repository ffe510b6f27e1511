#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/clip_frames.h"  // IWYU pragma: export
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Format of audio in all recipes: 16 kHz mono, a log-mel frame each 10 ms, windows of at most 30
/// s.
inline constexpr std::int64_t kRecipeSampleRate = 16'000;
inline constexpr std::int64_t kMelHop = 160;
inline constexpr std::int64_t kMelBins = 128;  ///< Values of a frame in native28.
inline constexpr double kClipSeconds = 30.0;   ///< Length of a window.

/// Reads the shape from the header of an audio format: sample_rate, channels, frames. Reads a few
/// KB; if nothing states the length, all frame headers or packets are read, and a FLAC stream of
/// unknown length and compressed CAF are decoded once. Const-safe. Errors: kCorrupt (truncated, no
/// samples, out of range), kUnsupported (another codec in the container), kIo.
Result<PartShape> probe_audio(const ByteSource& source, MediaFormat format);

/// Returns the number of 16 kHz mono samples that the recipe uses of a shape, cut at `max_seconds`,
/// in integer arithmetic. At least 1 if the shape has a sample and `max_seconds` > 0.
std::int64_t audio_samples_16k(const PartShape& shape, double max_seconds);

/// Division of a shape's audio, used for the load and for the tensors.
struct AudioPlan {
  std::vector<std::int32_t> window_frames;  ///< Mel frames that are delivered for each window.
  std::int64_t samples = 0;                 ///< 16 kHz samples in these frames, before padding.
  std::int64_t bins = kMelBins;             ///< Values of a frame: 80 or 128.
  /// Whether the encoder sees each window as 30 s, filled up with silence, and its spectrogram is
  /// exact: computed in float64. Otherwise there are 128 bins.
  bool filled = false;

  /// Returns the frames that the encoder sees of a window.
  std::int64_t seen_frames(std::int32_t delivered) const {
    return filled ? kWindowMelFrames : delivered;
  }
};
/// Plans windows of at most 30 s, each with a multiple of 4 frames.
AudioPlan plan_audio(const PartShape& shape, double max_seconds);
/// Plans audio as one window that will be filled up to 30 s: the frames in which the sound begins,
/// at most 3,000, and kFramesBehindClip more. The last of these is silence's, and all frames after
/// it would be copies of it. Frames beyond 3,000 are silence's too, so that the number of frames
/// always gives the length of the sound. Sound beyond 30 s is cut off.
AudioPlan plan_clip(const PartShape& shape, std::int64_t bins);

/// Decodes, mixes to mono, resamples and computes the log-mel spectrogram, in float32 rows of
/// `plan.bins`. `mel` must have exactly sum(window_frames) * bins values. Decodes no further than
/// the plan needs, on the calling thread. Errors: kInvalidArgument (size of `mel`), kCorrupt
/// (truncated, NaN, ends more than 0.1 s before the length in its header), kIo. After an error the
/// contents of `mel` are undefined.
Status audio_log_mel(const ByteSource& source, const PartShape& shape, const AudioPlan& plan,
                     std::span<float> mel);

/// Returns an upper bound of the memory of audio_log_mel, without `mel`.
std::int64_t audio_working_set_bytes(const PartShape& shape, double max_seconds);

}  // namespace isocost
