#include "decode/bytes/media_codecs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <string>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/codec.h>
#include <libavcodec/codec_id.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/defs.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
}

namespace isocost {
namespace {

constexpr std::array kVideoCodecs = {
    AV_CODEC_ID_H264,      AV_CODEC_ID_HEVC,      AV_CODEC_ID_VP8,        AV_CODEC_ID_VP9,
    AV_CODEC_ID_AV1,       AV_CODEC_ID_MPEG4,     AV_CODEC_ID_MPEG1VIDEO, AV_CODEC_ID_MPEG2VIDEO,
    AV_CODEC_ID_MJPEG,     AV_CODEC_ID_PRORES,    AV_CODEC_ID_FFV1,       AV_CODEC_ID_VC1,
    AV_CODEC_ID_WMV1,      AV_CODEC_ID_WMV2,      AV_CODEC_ID_WMV3,       AV_CODEC_ID_MSMPEG4V1,
    AV_CODEC_ID_MSMPEG4V2, AV_CODEC_ID_MSMPEG4V3, AV_CODEC_ID_FLV1,       AV_CODEC_ID_VP6F,
    AV_CODEC_ID_H263,      AV_CODEC_ID_THEORA};

constexpr std::array kAudioCodecs = {
    AV_CODEC_ID_AAC,           AV_CODEC_ID_AAC_LATM,   AV_CODEC_ID_ALAC,
    AV_CODEC_ID_MP1,           AV_CODEC_ID_MP2,        AV_CODEC_ID_MP3,
    AV_CODEC_ID_AC3,           AV_CODEC_ID_EAC3,       AV_CODEC_ID_FLAC,
    AV_CODEC_ID_VORBIS,        AV_CODEC_ID_OPUS,       AV_CODEC_ID_SPEEX,
    AV_CODEC_ID_WMAV1,         AV_CODEC_ID_WMAV2,      AV_CODEC_ID_WMAPRO,
    AV_CODEC_ID_WMALOSSLESS,   AV_CODEC_ID_WMAVOICE,   AV_CODEC_ID_AMR_NB,
    AV_CODEC_ID_AMR_WB,        AV_CODEC_ID_PCM_S8,     AV_CODEC_ID_PCM_U8,
    AV_CODEC_ID_PCM_S16LE,     AV_CODEC_ID_PCM_S16BE,  AV_CODEC_ID_PCM_S24LE,
    AV_CODEC_ID_PCM_S24BE,     AV_CODEC_ID_PCM_S32LE,  AV_CODEC_ID_PCM_S32BE,
    AV_CODEC_ID_PCM_F32LE,     AV_CODEC_ID_PCM_F32BE,  AV_CODEC_ID_PCM_F64LE,
    AV_CODEC_ID_PCM_F64BE,     AV_CODEC_ID_PCM_ALAW,   AV_CODEC_ID_PCM_MULAW,
    AV_CODEC_ID_PCM_DVD,       AV_CODEC_ID_PCM_BLURAY, AV_CODEC_ID_ADPCM_IMA_QT,
    AV_CODEC_ID_ADPCM_IMA_WAV, AV_CODEC_ID_ADPCM_MS,   AV_CODEC_ID_ADPCM_SWF};

const AVCodec* find_decoder(AVCodecID codec) {
  if (codec == AV_CODEC_ID_AV1) return avcodec_find_decoder_by_name("libdav1d");
  return avcodec_find_decoder(codec);
}

std::string joined_names() {
  std::string names;
  const auto add = [&](AVCodecID id) {
    const AVCodec* decoder = find_decoder(id);
    if (decoder != nullptr) names += (names.empty() ? "" : ",") + std::string(decoder->name);
  };
  std::ranges::for_each(kVideoCodecs, add);
  std::ranges::for_each(kAudioCodecs, add);
  return names;
}

bool is_ours(const AVCodecParameters& codec) {
  return codec.codec_type == AVMEDIA_TYPE_AUDIO
             ? std::ranges::find(kAudioCodecs, codec.codec_id) != kAudioCodecs.end()
             : std::ranges::find(kVideoCodecs, codec.codec_id) != kVideoCodecs.end();
}

}  // namespace

const std::string& allowed_decoders() {
  static const std::string names = joined_names();
  return names;
}

Status check_codec(const AVStream& stream) {
  const AVCodecParameters& codec = *stream.codecpar;
  if (is_ours(codec) && find_decoder(codec.codec_id) != nullptr) return {};
  const bool is_sound = codec.codec_type == AVMEDIA_TYPE_AUDIO;
  return Error(ErrorCode::kUnsupported,
               std::string(is_sound ? "audio" : "video") + " codec " +
                   avcodec_get_name(codec.codec_id) + " is not decoded; use " +
                   (is_sound ? "aac, flac, opus or mp3" : "h264, hevc, vp9, vp8, av1 or mpeg4"));
}

Result<AvCodec> open_decoder(const AVStream& stream, std::int64_t max_pixels) {
  ISOCOST_TRY(check_codec(stream));
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
