#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/media_formats.h"

struct AVCodecContext;
struct AVFormatContext;
struct AVFrame;
struct AVIOContext;
struct AVPacket;
struct AVStream;

namespace isocost {

struct FreeAvFrame {
  void operator()(AVFrame* frame) const;
};
struct FreeAvPacket {
  void operator()(AVPacket* packet) const;
};
struct FreeAvCodec {
  void operator()(AVCodecContext* codec) const;
};
using AvFrame = std::unique_ptr<AVFrame, FreeAvFrame>;
using AvPacket = std::unique_ptr<AVPacket, FreeAvPacket>;
using AvCodec = std::unique_ptr<AVCodecContext, FreeAvCodec>;

/// Drops FFmpeg's messages, once for the process.
void take_over_ffmpeg_log();

AvFrame make_av_frame();
AvPacket make_av_packet();

/// The kind of stream that is read of a container.
enum class StreamKind : std::uint8_t { kVideo, kSound };

/// A container opened over a ByteSource: libavformat reads only through it, with the demuxer that
/// `format` names, and follows no protocol, file or reference to another file. Its messages are
/// dropped; damage that it only logs is an error here. Single-thread; the source must outlive it.
class FfmpegInput {
 public:
  /// Opens a container. If its header does not describe all of its streams, reads up to 5 MB of
  /// packets. Errors: kCorrupt if it does not parse or has no audio stream, kNotFound if it
  /// has no video stream, kIo.
  static Result<FfmpegInput> open(const ByteSource& source, MediaFormat format,
                                  StreamKind kind = StreamKind::kVideo);
  FfmpegInput(FfmpegInput&&) noexcept;
  FfmpegInput& operator=(FfmpegInput&&) noexcept;
  ~FfmpegInput();

  AVFormatContext* context() const;
  /// Returns the stream that players would choose; all others are discarded.
  AVStream* stream() const;

  /// Reads packets until the properties of all streams are known, and decodes some, unless that has
  /// been done. Errors: kCorrupt, kIo.
  Status analyse();

  /// Reads the next packet of the stream. Returns false at the end. Errors: kCorrupt (a
  /// packet cut off, damage that the demuxer skipped), kIo.
  Result<bool> read_packet(AVPacket* packet);

  /// Moves to the last key frame at or before `ticks` of the stream. Errors: kCorrupt, kIo.
  Status seek(std::int64_t ticks);

  /// Returns `code` as an Error, or the source's error if that caused it.
  Error error(int code, const std::string& what) const;

 private:
  struct State;
  explicit FfmpegInput(std::unique_ptr<State> state);
  Status choose_stream(MediaFormat format, StreamKind kind);
  std::unique_ptr<State> state_;
};

}  // namespace isocost
