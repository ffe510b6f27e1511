#include "decode/video/internal/first_frames.h"

#include <cstdint>
#include <utility>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_codecs.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"
#include "decode/video/internal/frame_reader.h"
#include "decode/video/internal/shown_packets.h"

extern "C" {
#include <libavcodec/codec_id.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/frame.h>
}

namespace isocost {

BeginningInDoubt::Verdict BeginningInDoubt::note(const AVPacket& packet) {
  if (verdict_ == Verdict::kUnknown) verdict_ = verdict_of(packet);
  return verdict_;
}

BeginningInDoubt::Verdict BeginningInDoubt::verdict_of(const AVPacket& packet) {
  const AVCodecID codec = stream_.codecpar->codec_id;
  if (!std::exchange(had_key_, had_key_ || is_key_frame(stream_, packet))) {
    if (!had_key_) return begins_with_key_frame(codec) ? Verdict::kUnknown : Verdict::kInDoubt;
    if (codec == AV_CODEC_ID_H264) {
      return begins_in_open_group(stream_, packet) ? Verdict::kInDoubt : Verdict::kSure;
    }
    if (packet.pts != AV_NOPTS_VALUE) key_ = packet.pts;
    return loses_leading_pictures(stream_, packet) ? Verdict::kUnknown : Verdict::kSure;
  }
  const bool is_mpeg2 = codec == AV_CODEC_ID_MPEG1VIDEO || codec == AV_CODEC_ID_MPEG2VIDEO;
  if (codec == AV_CODEC_ID_MPEG4 && is_bidirectional_plane(packet)) return Verdict::kInDoubt;
  const bool is_before_key = key_ && (packet.pts == AV_NOPTS_VALUE || packet.pts < *key_);
  const bool is_leading = is_mpeg2 ? is_bidirectional(packet) : is_before_key;
  return is_leading ? Verdict::kInDoubt : Verdict::kSure;
}

Result<FirstFrames> decode_first_frames(const ByteSource& source, MediaFormat format,
                                        const DecodeLimit& limit) {
  constexpr std::int64_t kRoom = 320;  // that decoders round sizes up to
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format));
  const AVCodecParameters& of_stream = *input.stream()->codecpar;
  const std::int64_t pixels = (of_stream.width + kRoom) * (of_stream.height + kRoom);
  ISOCOST_ASSIGN(AvCodec codec, open_decoder(*input.stream(), pixels));
  FrameReader reader(input, std::move(codec), {&limit, 0});
  reader.end_after(FirstFrames::kPackets);
  FirstFrames frames;
  const AvFrame frame = make_av_frame();
  for (;;) {
    ISOCOST_ASSIGN(const bool more, reader.next(frame.get()));
    if (!more) return frames;
    frames.all_told &= frame->pts != AV_NOPTS_VALUE;
    frames.ticks.push_back(reader.ticks());
  }
}

}  // namespace isocost
