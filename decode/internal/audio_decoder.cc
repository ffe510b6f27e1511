#include "decode/internal/audio_decoder.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/internal/media_bytes.h"

namespace isocost {
namespace {

constexpr std::size_t kChunkValues = std::size_t{32} << 10;
constexpr float kLargest = 1e12F;  ///< Its power still fits a float.

/// What libsndfile's callbacks see: a position, and the first error of the source.
struct Stream {
  const ByteSource* source = nullptr;
  std::int64_t position = 0;
  std::optional<Error> error;
};

Stream& stream_of(void* user) { return *static_cast<Stream*>(user); }

sf_count_t length_of(void* user) { return stream_of(user).source->size(); }
sf_count_t tell(void* user) { return stream_of(user).position; }

sf_count_t seek(sf_count_t offset, int whence, void* user) {
  Stream& stream = stream_of(user);
  const std::int64_t base =
      whence == SEEK_SET ? 0 : (whence == SEEK_CUR ? stream.position : stream.source->size());
  std::int64_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) return -1;
  stream.position = target;
  return target;
}

sf_count_t read_bytes(void* to, sf_count_t count, void* user) {
  Stream& stream = stream_of(user);
  if (count <= 0 || stream.error) return 0;
  auto got = stream.source->read_at(
      stream.position, std::span(static_cast<std::byte*>(to), static_cast<std::size_t>(count)));
  if (!got.has_value()) {
    stream.error = std::move(got).error();
    return 0;
  }
  stream.position += static_cast<std::int64_t>(*got);
  return static_cast<sf_count_t>(*got);
}

sf_count_t refuse_write(const void*, sf_count_t, void*) { return 0; }

struct CloseFile {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

bool is_ours(int format) {
  switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
    case SF_FORMAT_RF64:
    case SF_FORMAT_FLAC:
    case SF_FORMAT_OGG:
    case SF_FORMAT_MPEG:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct AudioDecoder::State {
  Stream stream;
  SF_INFO info{};
  std::vector<float> values;  ///< Interleaved.
  std::vector<float> mono;
  std::int64_t position = 0;  ///< Samples handed out.
  std::unique_ptr<SNDFILE, CloseFile> file;
};

AudioDecoder::AudioDecoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
AudioDecoder::AudioDecoder(AudioDecoder&&) noexcept = default;
AudioDecoder& AudioDecoder::operator=(AudioDecoder&&) noexcept = default;
AudioDecoder::~AudioDecoder() = default;

std::int32_t AudioDecoder::sample_rate() const { return state_->info.samplerate; }
std::int32_t AudioDecoder::channels() const { return state_->info.channels; }

Result<AudioDecoder> AudioDecoder::open(const ByteSource& source) {
  auto state = std::make_unique<State>();
  state->stream.source = &source;
  SF_VIRTUAL_IO io{length_of, seek, read_bytes, refuse_write, tell};
  state->file.reset(sf_open_virtual(&io, SFM_READ, &state->info, &state->stream));
  if (state->stream.error) return *std::move(state->stream.error);
  if (!state->file) return corrupt("its audio does not open: " + std::string(sf_strerror(nullptr)));
  const SF_INFO& info = state->info;
  if (!is_ours(info.format) || info.channels < 1 || info.channels > 255 || info.samplerate < 1) {
    return corrupt("its audio is not what its header says");
  }
  const auto channels = static_cast<std::size_t>(info.channels);
  // At most four seconds a chunk, so that audio of a few Hz does not swell in the resampler.
  const std::size_t frames =
      std::min(kChunkValues / channels, std::size_t{4} * static_cast<std::size_t>(info.samplerate));
  state->mono.resize(frames);
  state->values.resize(frames * channels);
  return AudioDecoder(std::move(state));
}

Result<std::span<const float>> AudioDecoder::read() {
  State& s = *state_;
  const auto channels = static_cast<std::size_t>(s.info.channels);
  const sf_count_t got =
      sf_readf_float(s.file.get(), s.values.data(), static_cast<sf_count_t>(s.mono.size()));
  if (s.stream.error) return *s.stream.error;
  if (sf_error(s.file.get()) != SF_ERR_NO_ERROR) {
    return corrupt("its audio does not decode: " + std::string(sf_strerror(s.file.get())));
  }
  const auto frames = static_cast<std::size_t>(std::max<sf_count_t>(0, got));
  const float scale = 1.0F / static_cast<float>(channels);
  for (std::size_t i = 0; i < frames; ++i) {
    float sum = 0;
    for (std::size_t c = 0; c < channels; ++c) {
      const float value = s.values[i * channels + c];
      if (!(std::abs(value) <= kLargest)) {
        const std::int64_t at = s.position + static_cast<std::int64_t>(i);
        return corrupt("its audio sample " + std::to_string(at) +
                       (std::isnan(value) ? " is NaN" : " is infinite or beyond 1e12"));
      }
      sum += value;
    }
    s.mono[i] = sum * scale;
  }
  s.position += static_cast<std::int64_t>(frames);
  return std::span<const float>(s.mono.data(), frames);
}

}  // namespace isocost
