#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/internal/mp3_frames.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/packet.h>
#include <libavutil/frame.h>
#include <libavutil/samplefmt.h>
}

namespace isocost {
namespace {

class Mp3Decoder final : public AudioDecoder {
 public:
  Mp3Decoder(const ByteSource& source, Mp3Frames frames, AvCodec codec)
      : source_(source),
        frames_(std::move(frames)),
        codec_(std::move(codec)),
        packet_(make_av_packet()),
        frame_(make_av_frame()),
        mono_(static_cast<std::size_t>(frames_.samples_a_frame())) {
    begin_stream();
  }

  std::int32_t sample_rate() const override {
    return static_cast<std::int32_t>(frames_.sample_rate());
  }
  std::int32_t channels() const override { return static_cast<std::int32_t>(frames_.channels()); }

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

  /// Moves on to the stream behind this one. Returns whether there is one.
  Result<bool> next_stream() {
    ISOCOST_ASSIGN(const std::optional<std::int64_t> start, frames_.following());
    if (!start) return false;
    ISOCOST_ASSIGN(Mp3Frames next, Mp3Frames::open(source_, *start));
    if (next.sample_rate() != frames_.sample_rate()) {
      return corrupt("its MP3 streams have different sample rates");
    }
    frames_ = std::move(next);
    avcodec_flush_buffers(codec_.get());
    begin_stream();
    return true;
  }

  /// Decodes the next frame into mono_. Returns its number of samples, 0 at the end.
  Result<std::size_t> decode() {
    ISOCOST_ASSIGN(const ByteView bytes, frames_.next());
    if (bytes.empty()) return std::size_t{0};
    av_packet_unref(packet_.get());
    if (av_new_packet(packet_.get(), static_cast<int>(bytes.size())) < 0) throw std::bad_alloc();
    std::memcpy(packet_->data, bytes.data(), bytes.size());
    int code = avcodec_send_packet(codec_.get(), packet_.get());
    if (code >= 0) code = avcodec_receive_frame(codec_.get(), frame_.get());
    const std::int64_t index = index_++;
    if (code < 0) return undecodable(index);
    const bool fits = frame_->format == AV_SAMPLE_FMT_FLTP && frame_->nb_samples > 0 &&
                      static_cast<std::size_t>(frame_->nb_samples) <= mono_.size();
    if (!fits || frame_->ch_layout.nb_channels < 1) return undecodable(kLenient);
    const auto samples = static_cast<std::size_t>(frame_->nb_samples);
    ISOCOST_TRY(mix_to_mono(
        samples, static_cast<std::size_t>(frame_->ch_layout.nb_channels),
        index * frames_.samples_a_frame(), mono_.data(), [&](std::size_t i, std::size_t channel) {
          return reinterpret_cast<const float*>(frame_->extended_data[channel])[i];
        }));
    return samples;
  }

  /// Fills in silence for a frame at the start that does not decode: a stream cut out of a longer
  /// one starts with frames whose data began before them.
  Result<std::size_t> undecodable(std::int64_t index) {
    if (index < kLenient) {
      std::fill(mono_.begin(), mono_.end(), 0.0F);
      return mono_.size();
    }
    return corrupt("its MP3 stream does not decode after frame " + std::to_string(index_ - 1));
  }

  static constexpr std::int64_t kLenient = 2;

  const ByteSource& source_;
  Mp3Frames frames_;
  AvCodec codec_;
  AvPacket packet_;
  AvFrame frame_;
  std::size_t skip_ = 0;   ///< Samples of this stream that come first and are not audible.
  std::int64_t left_ = 0;  ///< Audible samples of this stream that were not handed out.
  std::vector<float> mono_;
  std::int64_t index_ = 0;
};

}  // namespace

Result<std::unique_ptr<AudioDecoder>> open_mp3(const ByteSource& source) {
  take_over_ffmpeg_log();
  ISOCOST_ASSIGN(Mp3Frames frames, Mp3Frames::open(source));
  const AVCodec* decoder = avcodec_find_decoder_by_name("mp3float");
  if (decoder == nullptr) return Error(ErrorCode::kUnsupported, "this libavcodec reads no MP3");
  AvCodec codec(avcodec_alloc_context3(decoder));
  if (!codec) throw std::bad_alloc();
  codec->thread_count = 1;
  codec->err_recognition = AV_EF_EXPLODE;
  if (avcodec_open2(codec.get(), decoder, nullptr) < 0) {
    return Error(ErrorCode::kInternal, "the MP3 decoder does not open");
  }
  return std::make_unique<Mp3Decoder>(source, std::move(frames), std::move(codec));
}

}  // namespace isocost
