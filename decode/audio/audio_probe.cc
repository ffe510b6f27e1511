#include <cstdint>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

constexpr std::int64_t kMaxSampleRate = 768'000;
constexpr std::int64_t kMaxChannels = 255;
constexpr std::int64_t kMaxFrames = std::int64_t{1} << 44;

Result<AudioHeader> read_header(const ByteSource& source, MediaFormat format) {
  switch (format) {
    case MediaFormat::kWav:
      return read_wav_header(source);
    case MediaFormat::kFlac:
      return read_flac_header(source);
    case MediaFormat::kOggVorbis:
    case MediaFormat::kOpus:
      return read_ogg_header(source);
    case MediaFormat::kMp3:
      return read_mp3_header(source);
    default:
      if (modality_of(format) == Modality::kAudio) {
        return read_container_sound_header(source, format);
      }
      return Error(ErrorCode::kInvalidArgument, "probe_audio: not an audio format");
  }
}

/// Returns the number of samples if no header states it, as for a FLAC stream that was
/// written to a pipe: decodes it once and drops the samples.
Result<std::int64_t> measure(const ByteSource& source, MediaFormat format) {
  ISOCOST_ASSIGN(const auto decoder, open_audio(source, format));
  std::int64_t frames = 0;
  for (;;) {
    ISOCOST_ASSIGN(const auto chunk, decoder->read());
    if (chunk.empty()) return frames;
    frames += static_cast<std::int64_t>(chunk.size());
  }
}

Status check_range(const AudioHeader& header) {
  if (header.sample_rate < 1 || header.sample_rate > kMaxSampleRate) {
    return corrupt("its audio header says " + std::to_string(header.sample_rate) +
                   " Hz; 1 to 768000 is possible");
  }
  if (header.channels < 1 || header.channels > kMaxChannels) {
    return corrupt("its audio header says " + std::to_string(header.channels) +
                   " channels; 1 to 255 is possible");
  }
  if (header.frames == 0) return corrupt("its audio has no samples");
  if (header.frames > kMaxFrames) return corrupt("its audio header says more samples than can be");
  return {};
}

}  // namespace

Result<PartShape> probe_audio(const ByteSource& source, MediaFormat format) {
  if (source.size() == 0) return corrupt("it has zero bytes");
  ISOCOST_ASSIGN(AudioHeader header, read_header(source, format));
  ISOCOST_TRY(check_range(header));
  if (header.frames < 0) {
    ISOCOST_ASSIGN(header.frames, measure(source, header.format));
    ISOCOST_TRY(check_range(header));
  }
  PartShape shape;
  shape.modality = Modality::kAudio;
  shape.format = header.format;
  shape.sample_rate = static_cast<std::int32_t>(header.sample_rate);
  shape.channels = static_cast<std::int32_t>(header.channels);
  shape.frames = header.frames;
  shape.encoded_bytes = source.size();
  return shape;
}

}  // namespace isocost
