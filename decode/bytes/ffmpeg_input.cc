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
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/media_codecs.h"
#include "decode/bytes/media_container.h"
#include "decode/shape/media_formats.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/codec_id.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavformat/avio.h>
#include <libavutil/avutil.h>
#include <libavutil/dict.h>
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
    case MediaFormat::kM4a:
      return "mov";
    case MediaFormat::kMatroska:
    case MediaFormat::kMka:
      return "matroska";
    case MediaFormat::kAvi:
    case MediaFormat::kAviSound:
      return "avi";
    case MediaFormat::kMpegTs:
    case MediaFormat::kMpegTsSound:
      return "mpegts";
    case MediaFormat::kMpegPs:
    case MediaFormat::kMpegPsSound:
      return "mpeg";
    case MediaFormat::kFlv:
    case MediaFormat::kFlvSound:
      return "flv";
    case MediaFormat::kWmv:
    case MediaFormat::kWma:
      return "asf";
    case MediaFormat::kOgv:
    case MediaFormat::kOggSound:
      return "ogg";
    case MediaFormat::kAdts:
      return "aac";
    case MediaFormat::kAiff:
      return "aiff";
    case MediaFormat::kCaf:
      return "caf";
    default:
      return nullptr;
  }
}

bool never_holds_video(MediaFormat format) {
  return format == MediaFormat::kAdts || format == MediaFormat::kAiff ||
         format == MediaFormat::kCaf;
}

/// Returns whether a container's header describes its streams as far as decoding needs.
bool tells_all(MediaFormat format, StreamKind kind) {
  if (kind == StreamKind::kSound) return false;  // AAC's header may state half of the rate
  return format == MediaFormat::kMp4 || format == MediaFormat::kMatroska ||
         format == MediaFormat::kAvi;
}

/// Returns whether Matroska says by which key a stream's packets are encrypted. Of MP4,
/// check_media_container tells it.
bool is_encrypted(const AVStream& stream) {
  return av_dict_get(stream.metadata, "enc_key_id", nullptr, 0) != nullptr;
}

/// Finds the properties of all streams. Frames of streams that the header names are limited as
/// those of other probes are by default.
int find_stream_info(AVFormatContext* context) {
  constexpr std::int64_t kMostPixels = 178'956'970;
  const unsigned streams = context->nb_streams;  // more may be found
  std::vector<AVDictionary*> options(streams, nullptr);
  for (AVDictionary*& of_stream : options) {
    av_dict_set_int(&of_stream, "max_pixels", kMostPixels, 0);
  }
  const int code = avformat_find_stream_info(context, streams > 0 ? options.data() : nullptr);
  for (AVDictionary*& of_stream : options) av_dict_free(&of_stream);
  return code;
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
  /// Returns whether a packet that the end of the source has shortened is whole samples of a CAF,
  /// whose size need not be known before its end.
  bool ends_anywhere(const AVPacket& packet) const {
    const AVCodecParameters& codec = *context->streams[packet.stream_index]->codecpar;
    return format == MediaFormat::kCaf && av_get_exact_bits_per_sample(codec.codec_id) > 0 &&
           codec.block_align > 0 && packet.size % codec.block_align == 0;
  }

  bool is_mpeg_ts() const {
    return format == MediaFormat::kMpegTs || format == MediaFormat::kMpegTsSound;
  }

  MediaFormat format = MediaFormat::kMp4;
  Stream stream_io;
  std::unique_ptr<AVIOContext, FreeIo> io;  // outlives the context, which reads through it
  std::unique_ptr<AVFormatContext, CloseInput> context;
  int stream = -1;
  bool is_analysed = false;
};

FfmpegInput::FfmpegInput(std::unique_ptr<State> state) : state_(std::move(state)) {}
FfmpegInput::FfmpegInput(FfmpegInput&&) noexcept = default;
FfmpegInput& FfmpegInput::operator=(FfmpegInput&&) noexcept = default;
FfmpegInput::~FfmpegInput() = default;

AVFormatContext* FfmpegInput::context() const { return state_->context.get(); }
AVStream* FfmpegInput::stream() const { return state_->context->streams[state_->stream]; }

Error FfmpegInput::error(int code, const std::string& what) const {
  const std::optional<Error>& behind = state_->stream_io.error;
  if (behind) return *behind;
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return corrupt(what + ": " + text.data());
}

Result<FfmpegInput> FfmpegInput::open(const ByteSource& source, MediaFormat format,
                                      StreamKind kind) {
  take_over_ffmpeg_log();
  const char* name = demuxer_name(format);
  const AVInputFormat* demuxer = name != nullptr ? av_find_input_format(name) : nullptr;
  if (demuxer == nullptr) return Error(ErrorCode::kInvalidArgument, "not a container");
  FfmpegInput input(std::make_unique<State>());
  State& s = *input.state_;
  s.stream_io.source = &source;
  s.format = format;
  auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBuffer));
  if (buffer == nullptr) throw std::bad_alloc();
  s.io.reset(
      avio_alloc_context(buffer, kIoBuffer, 0, &s.stream_io, read_bytes, nullptr, seek_bytes));
  AVFormatContext* raw = avformat_alloc_context();
  if (!s.io || raw == nullptr) throw std::bad_alloc();
  raw->pb = s.io.get();
  raw->io_open = refuse_open;
  raw->flags |= AVFMT_FLAG_CUSTOM_IO;
  raw->codec_whitelist = av_strdup(allowed_decoders().c_str());  // freed with the context
  raw->skip_estimate_duration_from_pts = 1;                      // it would read the end, too
  const int opened =
      avformat_open_input(&raw, nullptr, demuxer, nullptr);  // frees `raw` on failure
  if (opened == AVERROR_EOF && !s.stream_io.error) {
    return corrupt("its container ends before a frame: it is cut off, or has no frames");
  }
  if (opened < 0) return input.error(opened, "its container does not open");
  s.context.reset(raw);
  ISOCOST_TRY(input.choose_stream(format, kind));
  return input;
}

Status FfmpegInput::analyse() {
  State& s = *state_;
  if (std::exchange(s.is_analysed, true)) return {};  // libavformat does not survive a second time
  const int code = find_stream_info(s.context.get());
  if (s.stream_io.error) return *s.stream_io.error;
  if (code < 0) return error(code, "its container has no stream that can be read");
  return {};
}

Status FfmpegInput::choose_stream(MediaFormat format, StreamKind kind) {
  State& s = *state_;
  AVFormatContext* context = s.context.get();
  if (!tells_all(format, kind)) ISOCOST_TRY(analyse());
  const bool is_sound = kind == StreamKind::kSound;
  const AVMediaType type = is_sound ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
  s.stream = av_find_best_stream(context, type, -1, -1, nullptr, 0);
  constexpr int kCover = AV_DISPOSITION_ATTACHED_PIC;
  if (s.stream < 0 || (context->streams[s.stream]->disposition & kCover) != 0) {
    if (is_sound) {
      return corrupt(never_holds_video(format)
                         ? "it has no audio stream"
                         : "it has no video stream, and no audio stream either");
    }
    return Error(ErrorCode::kNotFound, "it has no video stream");
  }
  if (is_encrypted(*context->streams[s.stream])) return encrypted(is_sound ? "sound" : "video");
  for (unsigned i = 0; i < context->nb_streams; ++i) {
    if (static_cast<int>(i) != s.stream) context->streams[i]->discard = AVDISCARD_ALL;
  }
  return {};
}

Result<bool> FfmpegInput::read_packet(AVPacket* packet) {
  for (;;) {
    av_packet_unref(packet);
    const std::int64_t before = demuxer_errors;
    const int got = av_read_frame(state_->context.get(), packet);
    if (demuxer_errors != before && !state_->stream_io.error) {
      return corrupt("its container is broken between frames");
    }
    if (got == AVERROR_EOF && !state_->stream_io.error) return false;
    if (got < 0) return error(got, "its stream is broken");
    if (packet->stream_index != state_->stream) continue;
    const bool is_cut_off = (packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
    if (is_cut_off && !state_->ends_anywhere(*packet)) {
      return corrupt(state_->is_mpeg_ts()
                         ? "the counters of its MPEG-TS packets jump: some are missing, or several "
                           "files were joined"
                         : "its stream is cut off within a packet");
    }
    return true;
  }
}

Status FfmpegInput::seek(std::int64_t ticks) {
  const std::int64_t before = demuxer_errors;
  const int code =
      av_seek_frame(state_->context.get(), state_->stream, ticks, AVSEEK_FLAG_BACKWARD);
  if (code < 0) return error(code, "its video cannot be searched");
  if (demuxer_errors != before) return corrupt("its container is broken between frames");
  return {};
}

}  // namespace isocost
