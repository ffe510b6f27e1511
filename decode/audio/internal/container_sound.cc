#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/audio/internal/mp3_frame.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/media_codecs.h"
#include "decode/bytes/media_container.h"
#include "decode/bytes/ogg_pages.h"
#include "decode/shape/media_formats.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libavutil/mathematics.h>
#include <libavutil/rational.h>
#include <libavutil/samplefmt.h>
}

namespace isocost {
namespace {

template <typename Sample>
float as_float(Sample sample) {
  if constexpr (std::is_same_v<Sample, std::uint8_t>) {
    return static_cast<float>(sample - 128) / 128.0F;
  } else if constexpr (std::is_same_v<Sample, std::int16_t>) {
    return static_cast<float>(sample) / 32'768.0F;
  } else if constexpr (std::is_same_v<Sample, std::int32_t>) {
    return static_cast<float>(static_cast<double>(sample) / 2'147'483'648.0);
  } else {
    return static_cast<float>(sample);
  }
}

/// Mixes the channels of a frame whose samples are `Sample`.
template <typename Sample>
Status mix_as(const AVFrame& frame, bool is_planar, std::int64_t position, float* mono) {
  const auto samples = static_cast<std::size_t>(frame.nb_samples);
  const auto channels = static_cast<std::size_t>(frame.ch_layout.nb_channels);
  return mix_to_mono(samples, channels, position, mono, [&](std::size_t i, std::size_t channel) {
    const auto* plane =
        reinterpret_cast<const Sample*>(frame.extended_data[is_planar ? channel : 0]);
    return as_float(plane[is_planar ? i : i * channels + channel]);
  });
}

Status mix_frame(const AVFrame& frame, std::int64_t position, float* mono) {
  const auto format = static_cast<AVSampleFormat>(frame.format);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  switch (av_get_packed_sample_fmt(format)) {
    case AV_SAMPLE_FMT_U8:
      return mix_as<std::uint8_t>(frame, is_planar, position, mono);
    case AV_SAMPLE_FMT_S16:
      return mix_as<std::int16_t>(frame, is_planar, position, mono);
    case AV_SAMPLE_FMT_S32:
      return mix_as<std::int32_t>(frame, is_planar, position, mono);
    case AV_SAMPLE_FMT_FLT:
      return mix_as<float>(frame, is_planar, position, mono);
    case AV_SAMPLE_FMT_DBL:
      return mix_as<double>(frame, is_planar, position, mono);
    default:
      return Error(ErrorCode::kUnsupported, "its audio has samples of a kind that is not read");
  }
}

class ContainerSound final : public AudioDecoder {
 public:
  ContainerSound(FfmpegInput input, AvCodec codec)
      : input_(std::move(input)),
        codec_(std::move(codec)),
        sample_rate_(input_.stream()->codecpar->sample_rate),
        channels_(input_.stream()->codecpar->ch_layout.nb_channels),
        packet_(make_av_packet()),
        frame_(make_av_frame()) {}

  std::int32_t sample_rate() const override { return sample_rate_; }
  std::int32_t channels() const override { return channels_; }

  Result<std::span<const float>> read() override {
    for (;;) {
      const int code = avcodec_receive_frame(codec_.get(), frame_.get());
      if (code == AVERROR_EOF) return std::span<const float>();
      if (code == AVERROR(EAGAIN)) {
        ISOCOST_TRY(send_packet());
        continue;
      }
      if (code < 0) return undecodable(code);
      if (frame_->nb_samples > 0) return mix();
    }
  }

 private:
  Status send_packet() {
    bool more = true;
    do {
      ISOCOST_ASSIGN(more, input_.read_packet(packet_.get()));
      if (more) drop_part_of_frame();
    } while (more && packet_->size == 0);
    const int code = avcodec_send_packet(codec_.get(), more ? packet_.get() : nullptr);
    return code < 0 ? Status(undecodable(code)) : Status{};
  }

  /// Drops the bytes of PCM behind the packet's last whole sample, such as the last one of an AIFF
  /// with an odd number.
  void drop_part_of_frame() {
    const AVCodecParameters& of_stream = *input_.stream()->codecpar;
    const bool is_pcm = av_get_exact_bits_per_sample(of_stream.codec_id) >= 8;
    if (is_pcm && of_stream.block_align > 0) {
      av_shrink_packet(packet_.get(), packet_->size - packet_->size % of_stream.block_align);
    }
  }

  Result<std::span<const float>> mix() {
    if (frame_->sample_rate != sample_rate_ || frame_->ch_layout.nb_channels < 1) {
      return corrupt("its audio stream changes its rate");
    }
    const auto samples = static_cast<std::size_t>(frame_->nb_samples);
    mono_.resize(samples);
    ISOCOST_TRY(mix_frame(*frame_, position_, mono_.data()));
    position_ += frame_->nb_samples;
    return std::span<const float>(mono_);
  }

  Error undecodable(int code) const {
    return input_.error(code,
                        "its audio does not decode after sample " + std::to_string(position_));
  }

  FfmpegInput input_;
  AvCodec codec_;
  std::int32_t sample_rate_;
  std::int32_t channels_;
  AvPacket packet_;
  AvFrame frame_;
  std::vector<float> mono_;
  std::int64_t position_ = 0;  ///< Samples handed out.
};

/// Returns whether a container states the length of its sound, and does so by samples or, as ASF
/// does, within a thousandth of a second.
bool states_length(MediaFormat format) {
  return format == MediaFormat::kM4a || format == MediaFormat::kWma ||
         format == MediaFormat::kAiff || format == MediaFormat::kCaf ||
         format == MediaFormat::kOggSound;
}

/// Returns whether containers of a format state lengths that their packets do not have: ASF in
/// files of some recorders, and Ogg if the times of a stream that was cut out of another do not
/// begin at zero.
bool states_more_than_there_is(MediaFormat format) {
  return format == MediaFormat::kWma || format == MediaFormat::kOggSound;
}

/// Returns the ticks by which a stated length may exceed that of the packets, and counts: 0.1 s.
std::int64_t tolerance(const AVStream& stream) {
  return av_rescale_q(AV_TIME_BASE / 10, AV_TIME_BASE_Q, stream.time_base);
}

/// Returns the samples that the bytes of an AIFF hold, which its header may state wrongly; nothing
/// for compressed ones.
std::optional<std::int64_t> frames_of_bytes(const MediaContainer& container,
                                            const AVCodecParameters& codec) {
  const std::int64_t bits = av_get_exact_bits_per_sample(codec.codec_id);
  const std::int64_t frame_bits = bits * codec.ch_layout.nb_channels;
  // Four bits a sample are those of ADPCM, which come in blocks.
  if (!container.sound_bytes || bits < 8 || frame_bits <= 0) return std::nullopt;
  return *container.sound_bytes * 8 / frame_bits;
}

/// Returns whether a length may count whole packets, though the last one holds fewer samples, as
/// lossless codecs in CAF have it. Only decoding finds it.
bool fills_last_packet(MediaFormat format, const AVCodecParameters& codec) {
  return format == MediaFormat::kCaf && av_get_exact_bits_per_sample(codec.codec_id) == 0;
}

/// Returns the samples at the end of a packet that are decoded but not audible, as Opus in Matroska
/// states them.
std::int64_t discarded_samples(const AVPacket& packet) {
  constexpr std::size_t kAt = 4;
  std::size_t size = 0;
  const std::uint8_t* bytes = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
  if (bytes == nullptr || size < kAt + 4) return 0;
  return static_cast<std::int64_t>(little_endian({bytes, size}, kAt, 4));
}

/// Measures by the times of packets, without decoding any. Times before 0 are those of samples that
/// are decoded but not audible. Returns nothing if the last packet does not state its duration,
/// as those of some codecs in Matroska and FLV, which may last for 0.3 s.
Result<std::optional<std::int64_t>> measured_ticks(FfmpegInput& input) {
  constexpr std::int64_t kMostTicks = std::int64_t{1} << 61;
  const AvPacket packet = make_av_packet();
  std::optional<std::int64_t> first;
  std::int64_t end = 0;
  bool is_told = true;
  std::int64_t discarded = 0;  // ticks at the end
  const AVStream& stream = *input.stream();
  const AVRational samples{1, std::max(1, stream.codecpar->sample_rate)};
  for (;;) {
    ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
    if (!more) break;
    const std::int64_t told = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts;
    const std::int64_t at = told != AV_NOPTS_VALUE ? told : end;
    if (at > kMostTicks || at < -kMostTicks) return corrupt("its audio has impossible times");
    if (!first) first = end = at;
    if (at >= end) {
      is_told = packet->duration > 0;
      discarded = av_rescale_q(discarded_samples(*packet), samples, stream.time_base);
    }
    end = std::max(end, at + std::clamp<std::int64_t>(packet->duration, 0, INT32_MAX));
  }
  if (!first) return std::optional(std::int64_t{0});
  if (!is_told) return std::optional<std::int64_t>();
  return std::optional(end - discarded - std::max<std::int64_t>(*first, 0));
}

/// Refuses chained Ogg: the demuxer states only the length of the last stream.
Status check_not_chained(const ByteSource& source) {
  ISOCOST_ASSIGN(const LastOggPage last, last_ogg_page(source));
  ISOCOST_ASSIGN(const bool is_chained, is_chained_ogg(source, last.end));
  if (!is_chained) return {};
  return Error(ErrorCode::kUnsupported,
               "it has several chained Ogg streams, which are read of Vorbis and Opus alone: give "
               "each a file");
}

/// Returns whether the first packet is a frame of layer II, which MP4 calls MP3.
Result<bool> begins_with_layer2(const ByteSource& source, MediaFormat format) {
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format, StreamKind::kSound));
  const AvPacket packet = make_av_packet();
  ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
  if (!more || packet->size <= 0) return false;
  const auto frame = parse_mp3_frame({packet->data, static_cast<std::size_t>(packet->size)}, 0);
  return frame && frame->layer == 2;
}

/// Refuses what FFmpeg 5.1 decodes wrongly without an error: its table of long bands for MP3 of 24
/// kHz has 52 and 64 where other decoders have 54 and 62. MP3 files have another decoder.
Status check_decoded_rightly(const ByteSource& source, MediaFormat format,
                             const AVCodecParameters& codec) {
  constexpr int kWrongRate = 24'000;
  if (codec.codec_id != AV_CODEC_ID_MP3 || codec.sample_rate != kWrongRate) return {};
  ISOCOST_ASSIGN(const bool is_layer2, begins_with_layer2(source, format));
  if (is_layer2) return {};
  return Error(ErrorCode::kUnsupported,
               "MP3 of 24 kHz is decoded in MP3 and WAV files alone: take it out of its container "
               "(ffmpeg -i FILE -c copy FILE.mp3)");
}

}  // namespace

Result<std::unique_ptr<AudioDecoder>> open_container_sound(const ByteSource& source,
                                                           MediaFormat format) {
  ISOCOST_TRY(check_media_container(source, format));
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format, StreamKind::kSound));
  constexpr std::int64_t kNoPixels = 1;
  ISOCOST_ASSIGN(AvCodec codec, open_decoder(*input.stream(), kNoPixels));
  return std::make_unique<ContainerSound>(std::move(input), std::move(codec));
}

Result<AudioHeader> read_container_sound_header(const ByteSource& source, MediaFormat format) {
  ISOCOST_ASSIGN(const MediaContainer container, check_media_container(source, format));
  if (container.encrypted_sound) return encrypted("sound");
  if (format == MediaFormat::kOggSound) ISOCOST_TRY(check_not_chained(source));
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format, StreamKind::kSound));
  const AVStream& stream = *input.stream();
  ISOCOST_TRY(check_codec(stream));
  ISOCOST_TRY(check_decoded_rightly(source, format, *stream.codecpar));
  AudioHeader header;
  header.format = format;
  header.sample_rate = stream.codecpar->sample_rate;
  header.channels = stream.codecpar->ch_layout.nb_channels;
  if (const auto frames = frames_of_bytes(container, *stream.codecpar)) {
    header.frames = *frames;
    return header;
  }
  if (fills_last_packet(format, *stream.codecpar)) return header;  // frames < 0: not known
  std::int64_t ticks = states_length(format) && !container.fragmented ? stream.duration : 0;
  if (ticks <= 0 || states_more_than_there_is(format)) {
    ISOCOST_ASSIGN(const auto measured, measured_ticks(input));
    if (!measured && ticks <= 0) return header;
    const bool is_shorter = measured && (ticks <= 0 || *measured < ticks - tolerance(stream));
    if (is_shorter) ticks = *measured;
  }
  const int rate = std::max(1, stream.codecpar->sample_rate);
  header.frames =
      std::max<std::int64_t>(0, av_rescale_q(ticks, stream.time_base, AVRational{1, rate}));
  return header;
}

}  // namespace isocost
