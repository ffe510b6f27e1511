#include <algorithm>
#include <cmath>
#include <cstdint>

#include "decode/audio/audio.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

constexpr std::int64_t kWindowSamples = kWindowMelFrames * kMelHop;
static_assert(kWindowSamples == static_cast<std::int64_t>(kClipSeconds * kRecipeSampleRate));
constexpr std::int64_t kGroupSamples = 4 * kMelHop;  ///< Four mel frames make a token.

/// Returns the memory of a demuxer: its index, and the packets that it looks into and holds.
std::int64_t demuxer_bytes(const PartShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{10} << 20;
  switch (shape.format) {
    case MediaFormat::kWav:
    case MediaFormat::kFlac:
    case MediaFormat::kOggVorbis:
    case MediaFormat::kOpus:
    case MediaFormat::kMp3:
      return 0;
    default:
      return std::min(2 * shape.encoded_bytes, kMost);
  }
}

}  // namespace

std::int64_t audio_samples_16k(const PartShape& shape, double max_seconds) {
  if (shape.frames <= 0 || shape.sample_rate <= 0) return 0;
  constexpr double kMostSeconds = 1e9;
  const double seconds = std::clamp(max_seconds, 0.0, kMostSeconds);
  const std::int64_t most = std::llround(seconds * static_cast<double>(kRecipeSampleRate));
  __extension__ using Wide = unsigned __int128;
  const auto rate = static_cast<Wide>(shape.sample_rate);
  const Wide exact = (static_cast<Wide>(shape.frames) * kRecipeSampleRate + rate / 2) / rate;
  const Wide cut = std::min(std::max<Wide>(exact, 1), static_cast<Wide>(most));
  return static_cast<std::int64_t>(cut);
}

AudioPlan plan_audio(const PartShape& shape, double max_seconds) {
  AudioPlan plan;
  plan.samples = audio_samples_16k(shape, max_seconds);
  for (std::int64_t at = 0; at < plan.samples; at += kWindowSamples) {
    const std::int64_t samples = std::min(kWindowSamples, plan.samples - at);
    const std::int64_t groups = (samples + kGroupSamples - 1) / kGroupSamples;
    plan.window_frames.push_back(static_cast<std::int32_t>(4 * groups));
  }
  return plan;
}

AudioPlan plan_clip(const PartShape& shape, std::int64_t bins) {
  AudioPlan plan;
  plan.bins = bins;
  plan.filled = true;
  plan.samples = audio_samples_16k(shape, kClipSeconds);
  const std::int64_t frames = (plan.samples + kMelHop - 1) / kMelHop;
  plan.window_frames.push_back(static_cast<std::int32_t>(frames + kFramesBehindClip));
  return plan;
}

std::int64_t audio_working_set_bytes(const PartShape& shape, double max_seconds) {
  const std::int64_t window = std::min(kWindowSamples, audio_samples_16k(shape, max_seconds) + 640);
  // Counts one window of samples and its reflected copy; libsndfile's and the codecs' state and
  // their page buffers; chunks, interleaved, mono
  // and resampled; the resampler's filter, which grows with the rate.
  constexpr std::int64_t kCodecs = std::int64_t{4} << 20;
  constexpr std::int64_t kChunks = std::int64_t{1} << 20;
  return std::int64_t{8} * window + kCodecs + kChunks + demuxer_bytes(shape) +
         std::int64_t{12} * shape.sample_rate;
}

}  // namespace isocost
