#include "tests/support/av_media.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numbers>
#include <stdexcept>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/log.h>
#include <libavutil/opt.h>
}

/// x265 3.5 does not free all of an encoder. It only makes media for tests.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: the sanitizer's name
extern "C" const char* __lsan_default_suppressions() { return "leak:libx265"; }  // NOLINT

namespace isocost::test {
namespace {

/// A file in memory that encoders write to and seek in.
struct MemoryFile {
  Bytes bytes;
  std::size_t position = 0;

  std::int64_t seek(std::int64_t offset, int whence) {
    const auto base = whence == SEEK_SET
                          ? std::int64_t{0}
                          : static_cast<std::int64_t>(whence == SEEK_CUR ? position : bytes.size());
    if (base + offset < 0) return -1;
    position = static_cast<std::size_t>(base + offset);
    return base + offset;
  }
  void write(const void* data, std::size_t size) {
    bytes.resize(std::max(bytes.size(), position + size));
    std::memcpy(bytes.data() + position, data, size);
    position += size;
  }
  std::size_t read(void* to, std::size_t size) {
    const std::size_t got = std::min(size, bytes.size() - std::min(position, bytes.size()));
    if (got > 0) std::memcpy(to, bytes.data() + position, got);
    position += got;
    return got;
  }
};

MemoryFile& file_of(void* user) { return *static_cast<MemoryFile*>(user); }

SF_VIRTUAL_IO sound_io() {
  SF_VIRTUAL_IO io{};
  io.get_filelen = [](void* u) -> sf_count_t {
    return static_cast<sf_count_t>(file_of(u).bytes.size());
  };
  io.seek = [](sf_count_t o, int w, void* u) -> sf_count_t { return file_of(u).seek(o, w); };
  io.read = [](void* p, sf_count_t n, void* u) -> sf_count_t {
    return static_cast<sf_count_t>(file_of(u).read(p, static_cast<std::size_t>(n)));
  };
  io.write = [](const void* p, sf_count_t n, void* u) -> sf_count_t {
    file_of(u).write(p, static_cast<std::size_t>(n));
    return n;
  };
  io.tell = [](void* u) -> sf_count_t { return static_cast<sf_count_t>(file_of(u).position); };
  return io;
}

Bytes write_sound(std::span<const float> interleaved, std::int32_t rate, std::int32_t channels,
                  int format) {
  SF_INFO info{};
  info.samplerate = rate;
  info.channels = channels;
  info.format = format;
  MemoryFile file;
  SF_VIRTUAL_IO io = sound_io();
  SNDFILE* sound = sf_open_virtual(&io, SFM_WRITE, &info, &file);
  if (sound == nullptr) throw std::runtime_error(sf_strerror(nullptr));
  sf_command(sound, SFC_SET_CLIPPING, nullptr, SF_TRUE);
  constexpr std::size_t kBlock = 4096;  // large writes overflow the stack of the Vorbis encoder
  const auto step = kBlock * static_cast<std::size_t>(channels);
  for (std::size_t at = 0; at < interleaved.size(); at += step) {
    const std::size_t values = std::min(step, interleaved.size() - at);
    sf_writef_float(sound, interleaved.data() + at,
                    static_cast<sf_count_t>(values / static_cast<std::size_t>(channels)));
  }
  sf_close(sound);
  return std::move(file.bytes);
}

void check(int code, const char* what) {
  if (code < 0) throw std::runtime_error(std::string(what) + " failed");
}

const char* muxer_name(MediaFormat container) {
  switch (container) {
    case MediaFormat::kMatroska:
      return "matroska";
    case MediaFormat::kAvi:
      return "avi";
    default:
      return "mp4";
  }
}

class VideoWriter {
 public:
  explicit VideoWriter(MediaFormat container) {
    av_log_set_level(AV_LOG_QUIET);
    check(avformat_alloc_output_context2(&context_, nullptr, muxer_name(container), nullptr),
          "alloc_output_context");
    constexpr int kIo = 32 << 10;
    context_->pb = avio_alloc_context(
        static_cast<unsigned char*>(av_malloc(kIo)), kIo, 1, &file_, nullptr,
        [](void* u, std::uint8_t* p, int n) {
          file_of(u).write(p, static_cast<std::size_t>(n));
          return n;
        },
        [](void* u, std::int64_t o, int w) -> std::int64_t {
          if ((w & AVSEEK_SIZE) != 0) return static_cast<std::int64_t>(file_of(u).bytes.size());
          return file_of(u).seek(o, w);
        });
    // "moov at the start" is made by rewriting the file at its end, for which the muxer reads it
    context_->io_open = [](AVFormatContext* s, AVIOContext** pb, const char*, int, AVDictionary**) {
      constexpr int kReadIo = 32 << 10;
      auto* reader = new MemoryFile{file_of(s->pb->opaque).bytes, 0};
      *pb = avio_alloc_context(
          static_cast<unsigned char*>(av_malloc(kReadIo)), kReadIo, 0, reader,
          [](void* u, std::uint8_t* p, int n) {
            const std::size_t got = file_of(u).read(p, static_cast<std::size_t>(n));
            return got == 0 ? AVERROR_EOF : static_cast<int>(got);
          },
          nullptr,
          [](void* u, std::int64_t o, int w) -> std::int64_t {
            if ((w & AVSEEK_SIZE) != 0) return static_cast<std::int64_t>(file_of(u).bytes.size());
            return file_of(u).seek(o, w);
          });
      return 0;
    };
    context_->io_close2 = [](AVFormatContext*, AVIOContext* pb) {
      delete static_cast<MemoryFile*>(pb->opaque);
      av_freep(&pb->buffer);
      avio_context_free(&pb);
      return 0;
    };
  }
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;
  ~VideoWriter() {
    avcodec_free_context(&codec_);
    av_packet_free(&packet_);
    av_packet_free(&last_);
    av_frame_free(&frame_);
    av_freep(&context_->pb->buffer);
    avio_context_free(&context_->pb);
    avformat_free_context(context_);
  }

  void add_video(const VideoSpec& spec) {
    const AVCodec* encoder = avcodec_find_encoder_by_name(spec.encoder.c_str());
    if (encoder == nullptr) throw std::runtime_error("no encoder " + spec.encoder);
    codec_ = avcodec_alloc_context3(encoder);
    codec_->width = spec.width;
    codec_->height = spec.height;
    codec_->time_base = {1, spec.fps};
    codec_->framerate = {spec.fps, 1};
    codec_->gop_size = spec.gop;
    codec_->max_b_frames = spec.b_frames;
    codec_->pix_fmt = AV_PIX_FMT_YUV420P;
    codec_->thread_count = 1;
    codec_->bit_rate = 400'000;
    if ((context_->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
      codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    AVDictionary* options = encoder_options(spec);
    const int opened = avcodec_open2(codec_, encoder, &options);
    av_dict_free(&options);
    check(opened, "avcodec_open2");
    video_ = avformat_new_stream(context_, nullptr);
    check(avcodec_parameters_from_context(video_->codecpar, codec_), "parameters");
    video_->time_base = codec_->time_base;
    video_->avg_frame_rate = codec_->framerate;
    if (spec.clockwise_degrees != 0) {
      auto* matrix = reinterpret_cast<std::int32_t*>(
          av_stream_new_side_data(video_, AV_PKT_DATA_DISPLAYMATRIX, 9 * sizeof(std::int32_t)));
      av_display_rotation_set(matrix, spec.clockwise_degrees);
    }
  }

  void add_silence() {
    audio_ = avformat_new_stream(context_, nullptr);
    const bool aac = std::string(context_->oformat->name) == "mp4";
    const AVCodec* encoder = avcodec_find_encoder(aac ? AV_CODEC_ID_AAC : AV_CODEC_ID_PCM_S16LE);
    AVCodecContext* codec = avcodec_alloc_context3(encoder);
    codec->sample_rate = 16'000;
    codec->sample_fmt = encoder->sample_fmts[0];
    av_channel_layout_default(&codec->ch_layout, 1);
    codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    const int opened = avcodec_open2(codec, encoder, nullptr);
    if (opened >= 0) avcodec_parameters_from_context(audio_->codecpar, codec);
    avcodec_free_context(&codec);
    check(opened, "audio encoder");
    audio_->time_base = {1, 16'000};
  }

  Bytes run(const VideoSpec& spec) {
    AVDictionary* options = nullptr;
    if (spec.fragmented) {
      av_dict_set(&options, "movflags", "frag_keyframe+empty_moov+default_base_moof", 0);
    } else if (spec.moov_at_start) {
      av_dict_set(&options, "movflags", "faststart", 0);
    }
    if (spec.live) av_dict_set(&options, "live", "1", 0);
    const int written = avformat_write_header(context_, &options);
    av_dict_free(&options);
    check(written, "write_header");
    if (audio_ != nullptr) write_silence(spec.silence_s);
    for (int i = 0; i < spec.frames && codec_ != nullptr; ++i) {
      encode(spec, std::min(i, spec.still_from - 1), i);
    }
    if (codec_ != nullptr && spec.frames > 0) drain(nullptr);
    if (!spec.end.empty()) write_end(spec.end);
    for (int i = 0; i < spec.repeats; ++i) write_last_again();
    check(av_write_trailer(context_), "write_trailer");
    avio_flush(context_->pb);
    return std::move(file_.bytes);
  }

 private:
  static AVDictionary* encoder_options(const VideoSpec& spec) {
    AVDictionary* options = nullptr;
    if (spec.encoder == "libx264") {
      av_dict_set(&options, "preset", "ultrafast", 0);
      av_dict_set(&options, "x264-params", "scenecut=0", 0);
    } else if (spec.encoder == "libx265") {
      const std::string params = "log-level=none:pools=none:frame-threads=1:scenecut=0:bframes=" +
                                 std::to_string(spec.b_frames) +
                                 ":keyint=" + std::to_string(spec.gop) +
                                 ":min-keyint=" + std::to_string(spec.gop);
      av_dict_set(&options, "preset", "ultrafast", 0);
      av_dict_set(&options, "x265-params", params.c_str(), 0);
    } else if (spec.encoder.starts_with("libvpx")) {
      av_dict_set(&options, "deadline", "realtime", 0);
      av_dict_set(&options, "cpu-used", "8", 0);
    }
    return options;
  }

  void write_silence(double seconds) {
    AVPacket* packet = av_packet_alloc();
    check(av_new_packet(packet, 2048), "av_new_packet");
    std::memset(packet->data, 0, 2048);
    const auto blocks = static_cast<std::int64_t>(seconds * 16'000 / 1024);
    for (std::int64_t i = 0; i < blocks; ++i) {
      AVPacket* copy = av_packet_clone(packet);
      copy->stream_index = audio_->index;
      copy->pts = copy->dts = av_rescale_q(i * 1024, {1, 16'000}, audio_->time_base);
      copy->duration = av_rescale_q(1024, {1, 16'000}, audio_->time_base);
      copy->flags |= AV_PKT_FLAG_KEY;
      av_interleaved_write_frame(context_, copy);
      av_packet_free(&copy);
    }
    av_packet_free(&packet);
  }

  void paint(const VideoSpec& spec, int number) const {
    for (int y = 0; y < spec.height; ++y) {
      for (int x = 0; x < spec.width; ++x) {
        const int tile = y * 4 / spec.height * 4 + x * 4 / spec.width;
        const int tile_luma = ((number >> tile) & 1) != 0 ? 208 : 40;
        const int luma =
            spec.noise ? tile_luma + ((x * 7919 + y * 104'729 + number * 31) % 41) : tile_luma;
        frame_->data[0][y * frame_->linesize[0] + x] =
            spec.yuv ? (*spec.yuv)[0] : static_cast<std::uint8_t>(luma);
      }
    }
    for (int y = 0; y < spec.height / 2; ++y) {
      for (const int plane : {1, 2}) {
        std::memset(frame_->data[plane] + y * frame_->linesize[plane],
                    spec.yuv ? (*spec.yuv)[static_cast<std::size_t>(plane)] : 128,
                    static_cast<std::size_t>(spec.width / 2));
      }
    }
  }

  void encode(const VideoSpec& spec, int number, int at) {
    if (frame_ == nullptr) frame_ = av_frame_alloc();
    av_frame_unref(frame_);
    frame_->format = codec_->pix_fmt;
    frame_->width = codec_->width;
    frame_->height = codec_->height;
    check(av_frame_get_buffer(frame_, 0), "av_frame_get_buffer");
    paint(spec, number);
    frame_->pts = at;
    drain(frame_);
  }

  void drain(const AVFrame* frame) {
    check(avcodec_send_frame(codec_, frame), "send_frame");
    if (packet_ == nullptr) packet_ = av_packet_alloc();
    while (avcodec_receive_packet(codec_, packet_) == 0) {
      packet_->stream_index = video_->index;
      if (packet_->duration == 0) packet_->duration = 1;
      av_packet_rescale_ts(packet_, codec_->time_base, video_->time_base);
      av_packet_unref(last_);
      check(av_packet_ref(last_, packet_), "packet_ref");
      check(av_interleaved_write_frame(context_, packet_), "write_frame");
    }
  }

  // Writes a sample in the place of the next frame.
  void write_end(std::span<const std::uint8_t> bytes) {
    last_->pts += last_->duration;
    last_->dts += last_->duration;
    AVPacket* end = av_packet_alloc();
    check(av_new_packet(end, static_cast<int>(bytes.size())), "new_packet");
    check(av_packet_copy_props(end, last_), "copy_props");
    end->stream_index = video_->index;
    end->flags = 0;
    std::ranges::copy(bytes, end->data);
    const int written = av_interleaved_write_frame(context_, end);
    av_packet_free(&end);
    check(written, "write_frame");
  }

  void write_last_again() {
    last_->pts += last_->duration;
    last_->dts += last_->duration;
    check(av_packet_ref(packet_, last_), "packet_ref");
    check(av_interleaved_write_frame(context_, packet_), "write_frame");
  }

  MemoryFile file_;
  AVFormatContext* context_ = nullptr;
  AVCodecContext* codec_ = nullptr;
  AVStream* video_ = nullptr;
  AVStream* audio_ = nullptr;
  AVFrame* frame_ = nullptr;
  AVPacket* packet_ = nullptr;
  AVPacket* last_ = av_packet_alloc();
};

}  // namespace

std::vector<float> sine(std::int32_t rate, std::int32_t channels, std::int64_t frames, double hz) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(frames * channels));
  for (std::int64_t i = 0; i < frames; ++i) {
    const double angle = 2 * std::numbers::pi * hz * static_cast<double>(i) / rate;
    values.insert(values.end(), static_cast<std::size_t>(channels),
                  static_cast<float>(0.5 * std::sin(angle)));
  }
  return values;
}

Bytes make_wav(std::span<const float> interleaved, std::int32_t rate, std::int32_t channels,
               WavEncoding encoding) {
  constexpr std::array<int, 8> kSubtypes = {SF_FORMAT_PCM_U8, SF_FORMAT_PCM_16, SF_FORMAT_PCM_24,
                                            SF_FORMAT_PCM_32, SF_FORMAT_FLOAT,  SF_FORMAT_DOUBLE,
                                            SF_FORMAT_ALAW,   SF_FORMAT_ULAW};
  const int container = channels > 2 ? SF_FORMAT_WAVEX : SF_FORMAT_WAV;
  return write_sound(interleaved, rate, channels,
                     container | kSubtypes[static_cast<std::size_t>(encoding)]);
}

Bytes make_audio(MediaFormat format, std::span<const float> interleaved, std::int32_t rate,
                 std::int32_t channels) {
  switch (format) {
    case MediaFormat::kFlac:
      return write_sound(interleaved, rate, channels, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
    case MediaFormat::kOggVorbis:
      return write_sound(interleaved, rate, channels, SF_FORMAT_OGG | SF_FORMAT_VORBIS);
    case MediaFormat::kOpus:
      return write_sound(interleaved, rate, channels, SF_FORMAT_OGG | SF_FORMAT_OPUS);
    case MediaFormat::kMp3:
      return write_sound(interleaved, rate, channels, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III);
    default:
      return make_wav(interleaved, rate, channels);
  }
}

Bytes make_video(const VideoSpec& spec) {
  VideoWriter writer(spec.container);
  writer.add_video(spec);
  if (spec.silence_s > 0) writer.add_silence();
  return writer.run(spec);
}

Bytes make_video_without_video(MediaFormat container) {
  VideoWriter writer(container);
  writer.add_silence();
  VideoSpec spec;
  spec.silence_s = 1;
  spec.frames = 0;
  return writer.run(spec);
}

int shown_number(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height) {
  int number = 0;
  for (int tile = 0; tile < 16; ++tile) {
    const std::int32_t x = (tile % 4 * 2 + 1) * width / 8;
    const std::int32_t y = (tile / 4 * 2 + 1) * height / 8;
    if (rgb[static_cast<std::size_t>((y * width + x) * 3)] > 127) number |= 1 << tile;
  }
  return number;
}

Result<std::size_t> CountingByteSource::read_at(std::int64_t offset,
                                                std::span<std::byte> destination) const {
  auto got = inner_.read_at(offset, destination);
  if (got.has_value()) bytes_read_ += static_cast<std::int64_t>(*got);
  return got;
}

Result<std::size_t> FailingByteSource::read_at(std::int64_t offset,
                                               std::span<std::byte> destination) const {
  if (offset + static_cast<std::int64_t>(destination.size()) > fails_from_) {
    return Error(ErrorCode::kIo, "the disk is gone");
  }
  return inner_.read_at(offset, destination);
}

}  // namespace isocost::test
