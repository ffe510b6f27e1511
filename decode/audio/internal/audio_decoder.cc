#include "decode/audio/internal/audio_decoder.h"

#include <sndfile.h>

#include <algorithm>
#include <array>
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
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/source_slice.h"

namespace isocost {
namespace {

constexpr std::size_t kChunkValues = std::size_t{32} << 10;

/// Bytes that libsndfile reads in place of the source's.
struct Overlay {
  std::int64_t at = 0;
  std::array<std::byte, 8> bytes{};
  std::int64_t size = 0;

  void lay_on(std::span<std::byte> read, std::int64_t offset) const {
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t place = at + i - offset;
      if (place < 0 || place >= std::ssize(read)) continue;
      read[static_cast<std::size_t>(place)] = bytes[static_cast<std::size_t>(i)];
    }
  }
};

/// State for libsndfile's callbacks: a position, and the first error of the source.
struct Stream {
  const ByteSource* source = nullptr;
  std::vector<Overlay> overlays;
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
  const std::span into(static_cast<std::byte*>(to), static_cast<std::size_t>(count));
  auto got = stream.source->read_at(stream.position, into);
  if (!got.has_value()) {
    stream.error = std::move(got).error();
    return 0;
  }
  for (const Overlay& overlay : stream.overlays) {
    overlay.lay_on(into.first(*got), stream.position);
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
      return true;
    default:
      return false;
  }
}

/// Returns what libsndfile must read in place of a WAV's own bytes: the size of its samples that is
/// true if its header states another one, since libsndfile takes 0 for a file without samples,
/// and the name of RF64 in place of BW64, which is the same.
Result<std::vector<Overlay>> wav_overlays(const ByteSource& source) {
  ISOCOST_ASSIGN(const WavLayout layout, read_wav_layout(source));
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 4));
  std::vector<Overlay> overlays;
  if (has_tag(head, 0, "BW64")) {
    overlays.push_back({0, {std::byte{'R'}, std::byte{'F'}}, 2});
  }
  if (layout.data_bytes == layout.stated_bytes) return overlays;
  Overlay overlay{layout.size_field.at, {}, layout.size_field.bytes};
  const std::int64_t most = overlay.size == 4 ? std::int64_t{UINT32_MAX} : layout.data_bytes;
  const std::int64_t size = std::min(layout.data_bytes, most);
  for (std::int64_t i = 0; i < overlay.size; ++i) {
    const std::int64_t shift = 8 * (layout.is_big_endian ? overlay.size - 1 - i : i);
    overlay.bytes.at(static_cast<std::size_t>(i)) = static_cast<std::byte>(size >> shift);
  }
  overlays.push_back(overlay);
  return overlays;
}

class SoundFile final : public AudioDecoder {
 public:
  static Result<std::unique_ptr<AudioDecoder>> open(const ByteSource& source, MediaFormat format) {
    auto sound = std::make_unique<SoundFile>();
    sound->stream_.source = &source;
    if (format == MediaFormat::kWav) {
      ISOCOST_ASSIGN(SourceSlice wav, without_id3v2(source));
      sound->wav_ = std::make_unique<SourceSlice>(wav);
      sound->stream_.source = sound->wav_.get();
      ISOCOST_ASSIGN(sound->stream_.overlays, wav_overlays(*sound->wav_));
    }
    SF_VIRTUAL_IO io{length_of, seek, read_bytes, refuse_write, tell};
    sound->file_.reset(sf_open_virtual(&io, SFM_READ, &sound->info_, &sound->stream_));
    if (auto& error = sound->stream_.error) return *error;
    if (!sound->file_) {
      return corrupt("its audio does not open: " + std::string(sf_strerror(nullptr)));
    }
    const SF_INFO& info = sound->info_;
    if (!is_ours(info.format) || info.channels < 1 || info.channels > 255 || info.samplerate < 1) {
      return corrupt("its audio is not what its header says");
    }
    const auto channels = static_cast<std::size_t>(info.channels);
    // Reads at most four seconds per chunk, so that audio of a few Hz does not swell in the
    // resampler.
    const std::size_t frames = std::min(kChunkValues / channels,
                                        std::size_t{4} * static_cast<std::size_t>(info.samplerate));
    sound->mono_.resize(frames);
    sound->values_.resize(frames * channels);
    return sound;
  }

  std::int32_t sample_rate() const override { return info_.samplerate; }
  std::int32_t channels() const override { return info_.channels; }

  Result<std::span<const float>> read() override {
    const auto channels = static_cast<std::size_t>(info_.channels);
    // Beyond the last sample of FLAC, libFLAC would look for another frame in a tag.
    const sf_count_t most = std::min<sf_count_t>(std::ssize(mono_), info_.frames - position_);
    if (most <= 0) return std::span<const float>();
    const sf_count_t got = sf_readf_float(file_.get(), values_.data(), most);
    if (stream_.error) return *stream_.error;
    if (sf_error(file_.get()) != SF_ERR_NO_ERROR) {
      return corrupt("its audio does not decode: " + std::string(sf_strerror(file_.get())));
    }
    const auto frames = static_cast<std::size_t>(std::max<sf_count_t>(0, got));
    ISOCOST_TRY(mix_to_mono(
        frames, channels, position_, mono_.data(),
        [&](std::size_t frame, std::size_t c) { return values_[frame * channels + c]; }));
    position_ += static_cast<std::int64_t>(frames);
    const bool is_flac = (info_.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    if (is_flac && position_ == info_.frames) {
      ISOCOST_TRY(check_single_flac(*stream_.source, stream_.position));
    }
    return std::span<const float>(mono_.data(), frames);
  }

 private:
  std::unique_ptr<SourceSlice> wav_;  ///< Without tags at its start.
  Stream stream_;
  SF_INFO info_{};
  std::vector<float> values_;  ///< Interleaved.
  std::vector<float> mono_;
  std::int64_t position_ = 0;  ///< Samples handed out.
  std::unique_ptr<SNDFILE, CloseFile>
      file_;  // closed before the state of its callbacks is destroyed
};

}  // namespace

Result<std::unique_ptr<AudioDecoder>> open_audio(const ByteSource& source, MediaFormat format) {
  switch (format) {
    case MediaFormat::kWav:
    case MediaFormat::kFlac:
    case MediaFormat::kOggVorbis:
    case MediaFormat::kOpus:
      return SoundFile::open(source, format);
    case MediaFormat::kMp3:
      return open_mp3(source);
    default:
      return open_container_sound(source, format);
  }
}

}  // namespace isocost
