#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/internal/mp3_frames.h"
#include "decode/audio/internal/mpg123_decoder.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

class Mp3Decoder final : public AudioDecoder {
 public:
  Mp3Decoder(const ByteSource& source, Mp3Frames frames, Mpg123Decoder decoder)
      : source_(source),
        frames_(std::move(frames)),
        decoder_(std::move(decoder)),
        mono_(static_cast<std::size_t>(frames_.frame().samples)) {
    begin_stream();
  }

  std::int32_t sample_rate() const override {
    return static_cast<std::int32_t>(frames_.frame().sample_rate);
  }
  std::int32_t channels() const override {
    return static_cast<std::int32_t>(frames_.frame().channels);
  }

  Result<std::span<const float>> read() override {
    for (;;) {
      ISOCOST_ASSIGN(const std::size_t got, decode());
      if (got == 0) {
        ISOCOST_ASSIGN(const bool more, next_stream());
        if (!more) return std::span<const float>();
        continue;
      }
      const std::size_t skipped = std::min(skip_, got);
      skip_ -= skipped;
      const auto audible =
          static_cast<std::size_t>(std::min(left_, static_cast<std::int64_t>(got - skipped)));
      left_ -= static_cast<std::int64_t>(audible);
      if (audible > 0) return std::span<const float>(mono_.data() + skipped, audible);
    }
  }

 private:
  void begin_stream() {
    skip_ = static_cast<std::size_t>(frames_.skip());
    left_ = frames_.audible().value_or(INT64_MAX);
    index_ = 0;
  }

  /// Moves on to the stream after this one. Returns whether there is one.
  Result<bool> next_stream() {
    ISOCOST_ASSIGN(const std::optional<std::int64_t> start, frames_.following());
    if (!start) return false;
    ISOCOST_ASSIGN(Mp3Frames next, Mp3Frames::open(source_, *start));
    if (!next.may_follow(frames_.frame())) {
      return corrupt("its MP3 streams have different sample rates or layers");
    }
    frames_ = std::move(next);
    ISOCOST_TRY(decoder_.reset());
    begin_stream();
    return true;
  }

  /// Decodes the next frame into mono_. Returns its number of samples, 0 at the end.
  Result<std::size_t> decode() {
    ISOCOST_ASSIGN(const ByteView bytes, frames_.next());
    if (bytes.empty()) return std::size_t{0};
    const std::int64_t index = index_++;
    const auto decoded = decoder_.decode(bytes);
    if (!decoded.has_value()) return undecodable(index, decoded.error());
    const auto channels = static_cast<std::size_t>(decoder_.channels());
    const std::size_t samples = std::min(decoded->size() / channels, mono_.size());
    ISOCOST_TRY(mix_to_mono(
        samples, channels, index * frames_.frame().samples, mono_.data(),
        [&](std::size_t i, std::size_t channel) { return (*decoded)[i * channels + channel]; }));
    return samples;
  }

  /// Fills in silence for a frame at the start that does not decode: in layer III, a stream cut out
  /// of a longer one starts with frames whose data began before them.
  Result<std::size_t> undecodable(std::int64_t index, const Error& error) {
    if (index < kLenient && frames_.frame().layer == 3) {
      std::fill(mono_.begin(), mono_.end(), 0.0F);
      return mono_.size();
    }
    return corrupt("its MP3 frame " + std::to_string(index) + " is damaged: " + error.message());
  }

  static constexpr std::int64_t kLenient = 2;

  const ByteSource& source_;
  Mp3Frames frames_;
  Mpg123Decoder decoder_;
  std::size_t skip_ = 0;   ///< Samples of this stream that come first and are not audible.
  std::int64_t left_ = 0;  ///< Audible samples of this stream that were not handed out.
  std::vector<float> mono_;
  std::int64_t index_ = 0;
};

}  // namespace

Result<std::unique_ptr<AudioDecoder>> open_mp3(const ByteSource& source) {
  ISOCOST_ASSIGN(Mp3Frames frames, Mp3Frames::open(source));
  ISOCOST_ASSIGN(Mpg123Decoder decoder, Mpg123Decoder::create());
  return std::make_unique<Mp3Decoder>(source, std::move(frames), std::move(decoder));
}

}  // namespace isocost
