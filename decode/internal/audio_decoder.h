#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// Streams the samples of a WAV, FLAC, Ogg Vorbis, Opus or MP3 source, mixed to mono, through
/// libsndfile. Single-thread; the source must outlive it.
class AudioDecoder {
 public:
  /// Errors: kCorrupt where libsndfile cannot make sense of the bytes, kIo.
  static Result<AudioDecoder> open(const ByteSource& source);
  AudioDecoder(AudioDecoder&&) noexcept;
  AudioDecoder& operator=(AudioDecoder&&) noexcept;
  ~AudioDecoder();

  std::int32_t sample_rate() const;
  std::int32_t channels() const;

  /// The next mono samples, none at the end; valid until the next call. Errors: kCorrupt (a sample
  /// that is NaN, infinite or beyond 1e12, bytes that do not decode), kIo.
  Result<std::span<const float>> read();

 private:
  struct State;
  explicit AudioDecoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Mono floats of any rate to 16 kHz, through libswresample. Single-thread.
class Resampler {
 public:
  static Result<Resampler> create(std::int32_t sample_rate);
  Resampler(Resampler&&) noexcept;
  Resampler& operator=(Resampler&&) noexcept;
  ~Resampler();

  /// Takes samples and gives those that are ready; an empty span flushes, until none come. Valid
  /// until the next call.
  Result<std::span<const float>> convert(std::span<const float> samples);

 private:
  struct State;
  explicit Resampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isocost
