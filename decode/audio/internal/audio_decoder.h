#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"

namespace isocost {

/// Streams the samples of an audio source, mixed to mono. Single-thread.
class AudioDecoder {
 public:
  virtual ~AudioDecoder() = default;
  virtual std::int32_t sample_rate() const = 0;
  virtual std::int32_t channels() const = 0;

  /// Returns the next mono samples, none at the end; valid until the next call. Errors: kCorrupt (a
  /// sample that is NaN, infinite or beyond 1e12, bytes that do not decode), kIo.
  virtual Result<std::span<const float>> read() = 0;
};

/// Opens audio through libsndfile (WAV, FLAC, Ogg Vorbis, Opus), libmpg123 (MP3, frame by frame,
/// since libsndfile's use of it skips damage) or libavcodec (all other formats). The source must
/// outlive the decoder. Errors: kCorrupt if the bytes are invalid, kIo.
Result<std::unique_ptr<AudioDecoder>> open_audio(const ByteSource& source, MediaFormat format);
Result<std::unique_ptr<AudioDecoder>> open_mp3(const ByteSource& source);
Result<std::unique_ptr<AudioDecoder>> open_container_sound(const ByteSource& source,
                                                           MediaFormat format);

/// Opens an Ogg file of Vorbis or Opus whose pages have been checked up to about `samples` samples;
/// streams that are chained in it are read one after another. Errors: those of check_ogg_pages.
Result<std::unique_ptr<AudioDecoder>> open_checked_ogg(const ByteSource& source, MediaFormat format,
                                                       std::int64_t samples);

/// Computes the mean over channels of `frames` frames; `value(frame, channel)` gives a sample.
/// `position` counts frames, for the error: kCorrupt if a sample is NaN, infinite or beyond
/// 1e12.
template <typename Value>
Status mix_to_mono(std::size_t frames, std::size_t channels, std::int64_t position, float* mono,
                   const Value& value) {
  constexpr float kLargest = 1e12F;  // its power still fits a float
  const float scale = 1.0F / static_cast<float>(channels);
  for (std::size_t i = 0; i < frames; ++i) {
    float sum = 0;
    for (std::size_t c = 0; c < channels; ++c) {
      const float sample = value(i, c);
      if (!(std::abs(sample) <= kLargest)) {
        return corrupt("its audio sample " +
                       std::to_string(position + static_cast<std::int64_t>(i)) +
                       (std::isnan(sample) ? " is NaN" : " is infinite or beyond 1e12"));
      }
      sum += sample;
    }
    mono[i] = sum * scale;
  }
  return {};
}

/// Resamples mono floats of any rate to 16 kHz, through libswresample. Single-thread.
class Resampler {
 public:
  static Result<Resampler> create(std::int32_t sample_rate);
  Resampler(Resampler&&) noexcept;
  Resampler& operator=(Resampler&&) noexcept;
  ~Resampler();

  /// Takes samples and returns those that are ready; an empty span flushes, until none come. The
  /// result is valid until the next call.
  Result<std::span<const float>> convert(std::span<const float> samples);

 private:
  struct State;
  explicit Resampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isocost
