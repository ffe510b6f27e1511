#include "decode/bytes/ffmpeg_input.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavformat/avio.h>
#include <libavutil/avutil.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
}

namespace isocost {
namespace {

constexpr int kIoBuffer = 16 << 10;

/// Number of demuxers' error messages: demuxers skip damage, and report it in no other way.
thread_local std::int64_t demuxer_errors = 0;

bool is_demuxer(void* object) {
  const AVClass* type = object != nullptr ? *static_cast<AVClass**>(object) : nullptr;
  if (type == nullptr) return false;
  const AVClassCategory category =
      type->get_category != nullptr ? type->get_category(object) : type->category;
  return category == AV_CLASS_CATEGORY_DEMUXER;
}

/// Drops FFmpeg's messages, but counts a demuxer's errors.
void take_log(void* object, int level, const char*, va_list) {
  if (level <= AV_LOG_ERROR && is_demuxer(object)) ++demuxer_errors;
}

struct Stream {
  const ByteSource* source = nullptr;
  std::int64_t position = 0;
  std::optional<Error> error;
};

int read_bytes(void* user, std::uint8_t* to, int size) {
  auto& stream = *static_cast<Stream*>(user);
  if (stream.error) return AVERROR(EIO);
  auto got = stream.source->read_at(
      stream.position,
      std::as_writable_bytes(std::span(to, static_cast<std::size_t>(std::max(0, size)))));
  if (!got.has_value()) {
    stream.error = std::move(got).error();
    return AVERROR(EIO);
  }
  if (*got == 0) return AVERROR_EOF;
  stream.position += static_cast<std::int64_t>(*got);
  return static_cast<int>(*got);
}

std::int64_t seek_bytes(void* user, std::int64_t offset, int whence) {
  auto& stream = *static_cast<Stream*>(user);
  const std::int64_t size = stream.source->size();
  if ((whence & AVSEEK_SIZE) != 0) return size;
  std::int64_t base = 0;
  switch (whence & ~AVSEEK_FORCE) {
    case SEEK_SET:
      break;
    case SEEK_CUR:
      base = stream.position;
      break;
    case SEEK_END:
      base = size;
      break;
    default:
      return AVERROR(EINVAL);
  }
  std::int64_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) return AVERROR(EINVAL);
  stream.position = target;
  return target;
}

/// Refuses to open other files that a container names.
int refuse_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EACCES);
}

struct FreeIo {
  void operator()(AVIOContext* io) const {
    av_free(io->buffer);
    avio_context_free(&io);
  }
};

struct CloseInput {
  void operator()(AVFormatContext* context) const { avformat_close_input(&context); }
};

const char* demuxer_name(MediaFormat format) {
  switch (format) {
    case MediaFormat::kMp4:
      return "mov";
    case MediaFormat::kMatroska:
      return "matroska";
    case MediaFormat::kAvi:
      return "avi";
    default:
      return nullptr;
  }
}

bool is_ours(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_MPEG4:
      return true;
    default:
      return false;
  }
}

const AVCodec* find_decoder(AVCodecID codec) {
  if (codec == AV_CODEC_ID_AV1) return avcodec_find_decoder_by_name("libdav1d");
  return avcodec_find_decoder(codec);
}

}  // namespace

void take_over_ffmpeg_log() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_callback(take_log); });
}

void FreeAvFrame::operator()(AVFrame* frame) const { av_frame_free(&frame); }
void FreeAvPacket::operator()(AVPacket* packet) const { av_packet_free(&packet); }
void FreeAvCodec::operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }

AvFrame make_av_frame() {
  AvFrame frame(av_frame_alloc());
  if (!frame) throw std::bad_alloc();
  return frame;
}

AvPacket make_av_packet() {
  AvPacket packet(av_packet_alloc());
  if (!packet) throw std::bad_alloc();
  return packet;
}

struct FfmpegInput::State {
  Stream stream;
  std::unique_ptr<AVIOContext, FreeIo> io;  // outlives the context, which reads through it
  std::unique_ptr<AVFormatContext, CloseInput> context;
  int video = -1;
};

FfmpegInput::FfmpegInput(std::unique_ptr<State> state) : state_(std::move(state)) {}
FfmpegInput::FfmpegInput(FfmpegInput&&) noexcept = default;
FfmpegInput& FfmpegInput::operator=(FfmpegInput&&) noexcept = default;
FfmpegInput::~FfmpegInput() = default;

AVFormatContext* FfmpegInput::context() const { return state_->context.get(); }
AVStream* FfmpegInput::video() const { return state_->context->streams[state_->video]; }

Error FfmpegInput::error(int code, const std::string& what) const {
  const std::optional<Error>& behind = state_->stream.error;
  if (behind) return *behind;
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return corrupt(what + ": " + text.data());
}

Result<FfmpegInput> FfmpegInput::open(const ByteSource& source, MediaFormat format) {
  take_over_ffmpeg_log();
  const char* name = demuxer_name(format);
  const AVInputFormat* demuxer = name != nullptr ? av_find_input_format(name) : nullptr;
  if (demuxer == nullptr) return Error(ErrorCode::kInvalidArgument, "not a video container");
  FfmpegInput input(std::make_unique<State>());
  State& s = *input.state_;
  s.stream.source = &source;
  auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBuffer));
  if (buffer == nullptr) throw std::bad_alloc();
  s.io.reset(avio_alloc_context(buffer, kIoBuffer, 0, &s.stream, read_bytes, nullptr, seek_bytes));
  AVFormatContext* raw = avformat_alloc_context();
  if (!s.io || raw == nullptr) throw std::bad_alloc();
  raw->pb = s.io.get();
  raw->io_open = refuse_open;
  raw->flags |= AVFMT_FLAG_CUSTOM_IO;
  const int opened =
      avformat_open_input(&raw, nullptr, demuxer, nullptr);  // frees `raw` on failure
  if (opened == AVERROR_EOF && !s.stream.error) {
    return corrupt("its container ends before a frame: it is cut off, or has no frames");
  }
  if (opened < 0) return input.error(opened, "its container does not open");
  s.context.reset(raw);
  s.video = av_find_best_stream(raw, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (s.video < 0 || (raw->streams[s.video]->disposition & AV_DISPOSITION_ATTACHED_PIC) != 0) {
    return corrupt("it has no video stream");
  }
  for (unsigned i = 0; i < raw->nb_streams; ++i) {
    if (static_cast<int>(i) != s.video) raw->streams[i]->discard = AVDISCARD_ALL;
  }
  return input;
}

Result<bool> FfmpegInput::read_packet(AVPacket* packet) {
  for (;;) {
    av_packet_unref(packet);
    const std::int64_t before = demuxer_errors;
    const int got = av_read_frame(state_->context.get(), packet);
    if (demuxer_errors != before && !state_->stream.error) {
      return corrupt("its container is broken between frames");
    }
    if (got == AVERROR_EOF && !state_->stream.error) return false;
    if (got < 0) return error(got, "its video stream is broken");
    if (packet->stream_index != state_->video) continue;
    if ((packet->flags & AV_PKT_FLAG_CORRUPT) != 0) {
      return corrupt("its video stream is cut off within a packet");
    }
    return true;
  }
}

Status FfmpegInput::seek(std::int64_t ticks) {
  const std::int64_t before = demuxer_errors;
  const int code = av_seek_frame(state_->context.get(), state_->video, ticks, AVSEEK_FLAG_BACKWARD);
  if (code < 0) return error(code, "its video cannot be searched");
  if (demuxer_errors != before) return corrupt("its container is broken between frames");
  return {};
}

Status check_video_codec(const AVStream& stream) {
  const AVCodecID codec = stream.codecpar->codec_id;
  if (is_ours(codec) && find_decoder(codec) != nullptr) return {};
  return Error(ErrorCode::kUnsupported, std::string("video codec ") + avcodec_get_name(codec) +
                                            " is not decoded; use h264, hevc, vp9, vp8, av1 or "
                                            "mpeg4");
}

Result<AvCodec> open_video_decoder(const AVStream& stream, std::int64_t max_pixels) {
  ISOCOST_TRY(check_video_codec(stream));
  const AVCodec* decoder = find_decoder(stream.codecpar->codec_id);
  AvCodec codec(avcodec_alloc_context3(decoder));
  if (!codec) throw std::bad_alloc();
  int code = avcodec_parameters_to_context(codec.get(), stream.codecpar);
  codec->pkt_timebase = stream.time_base;
  codec->thread_count = 1;  // the workers run in parallel instead
  codec->max_pixels = max_pixels;
  codec->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_EXPLODE;
  if (code >= 0) code = avcodec_open2(codec.get(), decoder, nullptr);
  if (code < 0) {
    return corrupt(std::string("its ") + avcodec_get_name(stream.codecpar->codec_id) +
                   " header does not open");
  }
  return codec;
}

}  // namespace isocost
