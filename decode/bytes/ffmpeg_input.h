#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/sample_shape.h"

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

/// A container opened over a ByteSource: libavformat reads only through it, with the demuxer that
/// `format` names, and follows no protocol, file or reference to another file. Its messages are
/// dropped; damage that it only logs is an error here. Single-thread; the source must outlive it.
class FfmpegInput {
 public:
  /// Opens a container. Errors: kCorrupt where it does not parse or has no video stream, kIo.
  static Result<FfmpegInput> open(const ByteSource& source, MediaFormat format);
  FfmpegInput(FfmpegInput&&) noexcept;
  FfmpegInput& operator=(FfmpegInput&&) noexcept;
  ~FfmpegInput();

  AVFormatContext* context() const;
  /// Returns the video stream that players would choose; all others are discarded.
  AVStream* video() const;

  /// Reads the next packet of the video stream. Returns false at the end. Errors: kCorrupt (a
  /// packet cut off, damage that the demuxer skipped), kIo.
  Result<bool> read_packet(AVPacket* packet);

  /// Moves to the last key frame at or before `ticks` of the video stream. Errors: kCorrupt, kIo.
  Status seek(std::int64_t ticks);

  /// Returns `code` as an Error, or the source's error if that caused it.
  Error error(int code, const std::string& what) const;

 private:
  struct State;
  explicit FfmpegInput(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Opens the decoder for a stream's codec, with one thread and strict error detection; it refuses
/// frames beyond `max_pixels`. Errors: kUnsupported (a codec that we do not decode, or that this
/// libavcodec lacks), kCorrupt.
Result<AvCodec> open_video_decoder(const AVStream& stream, std::int64_t max_pixels);

/// Checks that we decode the stream's codec. Errors: kUnsupported naming the codec.
Status check_video_codec(const AVStream& stream);

}  // namespace isocost
