#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/checked.h"
#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/media_codecs.h"
#include "decode/bytes/media_container.h"
#include "decode/bytes/ogg_pages.h"
#include "decode/resize/orientation.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/internal/first_frames.h"
#include "decode/video/internal/shown_packets.h"
#include "decode/video/video.h"

extern "C" {
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/dict.h>
#include <libavutil/mathematics.h>
#include <libavutil/rational.h>
}

namespace isocost {
namespace {

constexpr int kTinySample = 16;  // bytes
constexpr std::int64_t kMaxDurationUs = std::int64_t{1'000'000'000} * 1'000'000;

std::int64_t to_us(std::int64_t ticks, AVRational time_base) {
  return av_rescale_q(ticks, time_base, AV_TIME_BASE_Q);
}

using Turn = std::array<std::int64_t, 4>;

/// Returns the matrix with zeros in place of what a program that computes a turn leaves of a
/// cosine. A matrix of zeros was not filled in, and is that of no turn to players.
Turn without_remainders(Turn turn) {
  constexpr std::int64_t kRemainder = 1000;
  const auto size_of = [](std::int64_t value) { return std::abs(value); };
  const std::int64_t largest = std::abs(std::ranges::max(turn, {}, size_of));
  if (largest == 0) return {1, 0, 0, 1};
  for (std::int64_t& value : turn) {
    if (std::abs(value) < largest / kRemainder) value = 0;
  }
  return turn;
}

/// Returns EXIF's number for a display matrix, which holds a quarter turn and perhaps a mirroring.
Result<std::uint8_t> orientation_of(const AVStream& stream) {
  std::size_t size = 0;
  const std::uint8_t* bytes = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  if (bytes == nullptr || size < 9 * sizeof(std::int32_t)) return std::uint8_t{1};
  const auto* m = reinterpret_cast<const std::int32_t*>(bytes);
  const auto [a, b, c, d] = without_remainders({m[0], m[1], m[3], m[4]});
  if (b == 0 && c == 0 && a != 0 && d != 0) {
    return static_cast<std::uint8_t>(a > 0 ? (d > 0 ? 1 : 4) : (d > 0 ? 2 : 3));
  }
  if (a == 0 && d == 0 && b != 0 && c != 0) {
    return static_cast<std::uint8_t>(b > 0 ? (c > 0 ? 5 : 6) : (c > 0 ? 8 : 7));
  }
  return Error(ErrorCode::kUnsupported, "it is displayed turned by no multiple of 90 degrees");
}

/// Reads a stream's duration from its tag in Matroska, "00:00:08.120000000".
std::optional<std::int64_t> tagged_duration_us(const AVStream& stream) {
  const AVDictionaryEntry* tag = av_dict_get(stream.metadata, "DURATION", nullptr, 0);
  if (tag == nullptr) return std::nullopt;
  int hours = 0;
  int minutes = 0;
  double seconds = 0;
  if (std::sscanf(tag->value, "%3d:%2d:%lf", &hours, &minutes, &seconds) != 3) return std::nullopt;
  if (hours < 0 || minutes < 0 || !(seconds >= 0 && seconds < 60)) return std::nullopt;
  return (std::int64_t{hours} * 60 + minutes) * 60'000'000 +
         static_cast<std::int64_t>(seconds * 1e6);
}

/// Returns when a packet's frame is shown; nothing for a frame without a time or that is not shown.
std::optional<std::int64_t> shown_at(const AVPacket& packet) {
  const std::int64_t at = packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
  if (at == AV_NOPTS_VALUE || (packet.flags & AV_PKT_FLAG_DISCARD) != 0) return std::nullopt;
  return at;
}

/// The span of frames' times, in units of their stream's time base.
class FrameSpan {
 public:
  explicit FrameSpan(std::int64_t first) : first_(first), last_(first) {}

  /// Adds a frame; 0 means an unknown duration, and the shortest gap is then taken for it.
  void add(std::int64_t at, std::int64_t duration) {
    if (at > last_) {
      gap_ = gap_ == 0 ? at - last_ : std::min(gap_, at - last_);
      last_ = at;
    }
    const std::int64_t length = duration > 0 ? duration : gap_;
    end_ = std::max(end_, at + std::clamp<std::int64_t>(length, 0, INT32_MAX));
  }
  std::int64_t length() const { return end_ - first_; }

 private:
  std::int64_t first_;
  std::int64_t last_;
  std::int64_t gap_ = 0;
  std::int64_t end_ = 0;
};

/// Seeks to the last known key frame. Without an index, that does nothing, and all packets are
/// read.
Status seek_to_last_key_frame(FfmpegInput& input) {
  const std::int64_t far = input.context()->duration;
  if (far <= 0 || far >= kMaxDurationUs) return {};
  Status moved = input.seek(av_rescale_q(far, AV_TIME_BASE_Q, input.stream()->time_base));
  if (!moved && moved.error().code() == ErrorCode::kIo) return moved;
  return {};
}

/// Measures where the last frame ends: reads packets (and decodes none) from the last known key
/// frame on.
Result<std::int64_t> measure_us(FfmpegInput& input, bool seek_near_end) {
  const AvPacket packet = make_av_packet();
  const AVStream& stream = *input.stream();
  std::optional<FrameSpan> span;
  for (;;) {
    ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
    if (!more) break;
    const std::optional<std::int64_t> at = shown_at(*packet);
    if (!at) continue;
    // av_rescale_q returns INT64_MIN where the result does not fit.
    const std::int64_t at_us = to_us(*at, stream.time_base);
    if (at_us > kMaxDurationUs || at_us < -kMaxDurationUs) {
      return corrupt("its video has impossible times");
    }
    if (!span) {
      span.emplace(*at);
      if (seek_near_end) ISOCOST_TRY(seek_to_last_key_frame(input));
    }
    span->add(*at, packet->duration);
  }
  if (!span) return corrupt("its video has no frames");
  return to_us(span->length(), stream.time_base);
}

/// Returns whether a container may state the duration of its video. libavformat guesses that of
/// others from the rate of bits.
bool states_duration(MediaFormat format) {
  return format == MediaFormat::kMatroska || format == MediaFormat::kMp4 ||
         format == MediaFormat::kAvi;
}

/// Returns the duration in the container; nothing if it has none.
std::optional<std::int64_t> declared_us(const FfmpegInput& input, MediaFormat format) {
  const AVStream& stream = *input.stream();
  if (states_duration(format) && stream.duration > 0) {
    return to_us(stream.duration, stream.time_base);
  }
  if (format != MediaFormat::kMatroska) return std::nullopt;
  if (const auto tagged = tagged_duration_us(stream)) return tagged;
  // The container's duration is that of its longest stream, which need not be the video.
  const bool alone = input.context()->nb_streams == 1 && input.context()->duration > 0;
  return alone ? std::optional(input.context()->duration) : std::nullopt;
}

/// Checks that there are frames. An index that is not empty suffices; without one, there must be a
/// packet.
Status check_has_frames(FfmpegInput& input) {
  if (avformat_index_get_entries_count(input.stream()) > 0) return {};
  const AvPacket packet = make_av_packet();
  ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
  return more ? Status{} : Status(corrupt("its video has no frames"));
}

Result<std::int64_t> duration_us(FfmpegInput& input, MediaFormat format, bool fragmented) {
  const auto declared = fragmented ? std::nullopt : declared_us(input, format);
  if (!declared) return measure_us(input, format == MediaFormat::kMatroska);
  ISOCOST_TRY(check_has_frames(input));
  return *declared;
}

Status check_size(FfmpegInput& input, std::int64_t max_pixels) {
  const AVCodecParameters& codec = *input.stream()->codecpar;
  if (codec.width <= 0 || codec.height <= 0) {
    input.context()->probesize = 256 << 10;
    input.context()->max_analyze_duration = AV_TIME_BASE;
    ISOCOST_TRY(input.analyse());
    if (codec.width <= 0 || codec.height <= 0) return corrupt("its video has no size");
  }
  const auto pixels = checked_product(codec.width, codec.height);
  if (!pixels || *pixels > max_pixels) {
    return Error(ErrorCode::kResourceExhausted,
                 "its video of " + std::to_string(codec.width) + "x" +
                     std::to_string(codec.height) + " is over the limit of " +
                     std::to_string(max_pixels) + " pixels: raise max_decoded_pixels");
  }
  return {};
}

/// Returns whether the index of an MP4 shows which frames are shown: it lists those before the
/// first key frame, and VP8's hidden ones, too.
bool lists_shown_frames(AVStream* stream) {
  const int codec = stream->codecpar->codec_id;
  const AVIndexEntry* first = avformat_index_get_entry(stream, 0);
  if (first == nullptr || codec == AV_CODEC_ID_VP8) return false;
  return (first->flags & AVINDEX_KEYFRAME) != 0 || !begins_with_key_frame(codec);
}

/// Returns whether a sample is so small that it may hold no picture, such as the end of a sequence:
/// only its bytes tell.
bool is_tiny(int size) { return size <= kTinySample; }

/// Returns whether a sample of an MP4's index holds a picture. Reads it only if it is tiny.
Result<bool> lists_picture(const AVStream& stream, const AVIndexEntry& entry,
                           const ByteSource& source) {
  const int size = entry.size;
  if (!is_tiny(size)) return true;
  std::array<std::uint8_t, kTinySample> bytes{};
  const auto sample = std::span(bytes).first(static_cast<std::size_t>(std::max(size, 0)));
  if (entry.pos < 0) return corrupt("its index names no place of a packet");
  ISOCOST_ASSIGN(const std::size_t got, source.read_at(entry.pos, std::as_writable_bytes(sample)));
  if (got < sample.size()) return corrupt("its stream is cut off within a packet");
  const AvPacket packet = make_av_packet();
  packet->data = bytes.data();
  packet->size = size;
  return holds_picture(stream, *packet);
}

/// Returns the number of frames that the index of an MP4 lists, without those that an edit list
/// cuts away, and without samples at the end that hold no picture. Returns nothing where such a
/// sample precedes a picture: it may end a sequence, so that pictures behind it are not shown.
Result<std::optional<std::int64_t>> indexed_frames(AVStream* stream, const ByteSource& source) {
  std::int64_t frames = 0;
  bool has_ended = false;
  const int entries = avformat_index_get_entries_count(stream);
  for (int i = 0; i < entries; ++i) {
    const AVIndexEntry* entry = avformat_index_get_entry(stream, i);
    ISOCOST_ASSIGN(const bool is_picture, lists_picture(*stream, *entry, source));
    if (is_picture && has_ended) return std::optional<std::int64_t>();
    has_ended = !is_picture;
    const bool is_cut_away = (entry->flags & AVINDEX_DISCARD_FRAME) != 0;
    frames += is_picture && !is_cut_away ? 1 : 0;
  }
  return std::optional(frames);
}

/// Returns the number of pictures at the start that the index of an MP4 lists, but that no decoder
/// shows, because they refer to pictures before the start; nothing where the packets must be read.
Result<std::optional<std::int64_t>> undecodable_leading_frames(FfmpegInput& input) {
  const AVIndexEntry* first = avformat_index_get_entry(input.stream(), 0);
  if (first == nullptr) return std::optional<std::int64_t>();
  if (!input.seek(first->timestamp)) return std::optional<std::int64_t>();
  const AVCodecParameters& codec = *input.stream()->codecpar;
  const bool may_lead = codec.codec_id == AV_CODEC_ID_HEVC || codec.video_delay != 0;
  const AvPacket packet = make_av_packet();
  ShownPackets shown(*input.stream());
  BeginningInDoubt beginning(*input.stream());
  auto verdict = BeginningInDoubt::Verdict::kUnknown;
  std::int64_t frames = 0;
  while ((may_lead && shown.in_leading()) || verdict == BeginningInDoubt::Verdict::kUnknown) {
    ISOCOST_ASSIGN(const bool more, input.read_packet(packet.get()));
    if (!more) break;
    verdict = beginning.note(*packet);
    if (verdict == BeginningInDoubt::Verdict::kInDoubt) return std::optional<std::int64_t>();
    const bool is_shown = shown.is_shown(*packet);
    const bool is_cut_away = (packet->flags & AV_PKT_FLAG_DISCARD) != 0;
    // indexed_frames does not count it.
    const bool is_end = is_tiny(packet->size) && !holds_picture(*input.stream(), *packet);
    frames += !is_shown && !is_cut_away && !is_end ? 1 : 0;
  }
  return std::optional(frames);
}

/// Returns the number of frames that are shown of an MP4 in one piece, by its index; nothing where
/// the packets must be read.
Result<std::optional<std::int64_t>> indexed_shown_frames(FfmpegInput& input,
                                                         const ByteSource& source) {
  if (!lists_shown_frames(input.stream())) return std::optional<std::int64_t>();
  ISOCOST_ASSIGN(const auto frames, indexed_frames(input.stream(), source));
  if (!frames) return frames;
  ISOCOST_ASSIGN(const auto leading, undecodable_leading_frames(input));
  if (!leading || *leading >= *frames) return std::optional<std::int64_t>();
  return std::optional(*frames - *leading);
}

struct FrameCount {
  std::int64_t frames = 0;
  std::int64_t first_to_last_us = 0;  ///< 0 where only the index was read
  std::int64_t origin_us = 0;         ///< Time of the first frame, where packets were read
  bool is_late = false;               ///< Whether packets precede the first key frame
  bool all_told = true;               ///< Whether packets state when their frames are shown
};

/// Counts frames. The index of an MP4 in one piece suffices, if it tells which are shown;
/// otherwise all packets are read, from the start and therefore by an input of their own.
Result<FrameCount> count_frames(FfmpegInput& input, const ByteSource& source, MediaFormat format,
                                bool fragmented) {
  if (format == MediaFormat::kMp4 && !fragmented) {
    ISOCOST_ASSIGN(const auto frames, indexed_shown_frames(input, source));
    if (frames) return FrameCount{*frames};
  }
  ISOCOST_ASSIGN(const VideoFrameTimes times, video_frame_times(source, format));
  const std::int64_t origin_us = to_us(times.origin, input.stream()->time_base);
  return FrameCount{std::ssize(times.us), times.us.back(), origin_us, times.is_late,
                    times.all_told};
}

/// Returns the container's frame rate; if it has none, that of the frames' times, or frames over
/// duration, which some containers count from zero and not from the first frame.
AVRational frame_rate(const AVStream& stream, const PartShape& shape,
                      std::int64_t first_to_last_us) {
  constexpr std::int64_t kMost = INT32_MAX;
  AVRational rate = stream.avg_frame_rate;
  if (rate.num > 0 && rate.den > 0) return rate;
  if (first_to_last_us > 0) {
    av_reduce(&rate.num, &rate.den, (shape.frames - 1) * AV_TIME_BASE, first_to_last_us, kMost);
  } else if (shape.duration_us > 0) {
    av_reduce(&rate.num, &rate.den, shape.frames * AV_TIME_BASE, shape.duration_us, kMost);
  }
  return rate.num > 0 && rate.den > 0 ? rate : AVRational{kUnknownFrameRate, 1};
}

/// Returns the duration of the frames that are shown.
Result<std::int64_t> counted_us(const FrameCount& count, AVRational rate) {
  const std::int64_t frame_us = to_us(1, av_inv_q(rate));
  const auto total = count.all_told ? checked_sum(count.first_to_last_us, frame_us)
                                    : checked_product(count.frames, frame_us);
  if (!total || *total > kMaxDurationUs) return corrupt("its video has an impossible duration");
  return *total;
}

/// Refuses Ogg videos one after another, because the decoder would fail at the second.
Status check_not_chained(const ByteSource& source, MediaFormat format) {
  if (format != MediaFormat::kOgv) return {};
  ISOCOST_ASSIGN(const LastOggPage last, last_ogg_page(source));
  ISOCOST_ASSIGN(const bool is_chained, is_chained_ogg(source, last.end));
  if (!is_chained) return {};
  return Error(ErrorCode::kUnsupported,
               "it has several Ogg videos one after another: give each a file");
}

}  // namespace

Result<PartShape> probe_video(const ByteSource& source, MediaFormat format,
                              std::int64_t max_pixels) {
  if (source.size() == 0) return corrupt("it has zero bytes");
  ISOCOST_ASSIGN(const MediaContainer container, check_media_container(source, format));
  if (container.encrypted_video) return encrypted("video");
  ISOCOST_ASSIGN(FfmpegInput input, FfmpegInput::open(source, format));
  ISOCOST_TRY(check_codec(*input.stream()));
  ISOCOST_TRY(check_not_chained(source, format));
  ISOCOST_TRY(check_size(input, max_pixels));
  PartShape shape;
  shape.modality = Modality::kVideo;
  shape.format = format;
  ISOCOST_ASSIGN(shape.orientation, orientation_of(*input.stream()));
  ISOCOST_ASSIGN(shape.duration_us, duration_us(input, format, container.fragmented));
  if (shape.duration_us < 0 || shape.duration_us > kMaxDurationUs) {
    return corrupt("its video has an impossible duration");
  }
  ISOCOST_ASSIGN(const FrameCount count, count_frames(input, source, format, container.fragmented));
  shape.frames = count.frames;
  const AVRational rate = frame_rate(*input.stream(), shape, count.first_to_last_us);
  // A duration by packets would count those before the first frame, or miss those without a time.
  if (count.is_late || (!count.all_told && !states_duration(format))) {
    ISOCOST_ASSIGN(shape.duration_us, counted_us(count, rate));
  }
  // Matroska states when the last frame ends, counted from zero and not from the first frame.
  const bool counts_from_zero = format == MediaFormat::kMatroska && declared_us(input, format);
  if (counts_from_zero && count.origin_us > 0) {
    shape.duration_us = std::max(shape.duration_us - count.origin_us, count.first_to_last_us);
  }
  shape.sample_rate = rate.num;
  shape.channels = rate.den;
  shape.width = input.stream()->codecpar->width;
  shape.height = input.stream()->codecpar->height;
  if (exchanges_sides(shape.orientation)) std::swap(shape.width, shape.height);
  shape.encoded_bytes = source.size();
  return shape;
}

}  // namespace isocost
