#include "decode/video/internal/frame_reader.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/video/internal/jump_progress.h"
#include "decode/video/internal/packet_feed.h"
#include "decode/video/internal/shown_packets.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>
}

namespace isocost {
namespace {

std::int64_t packet_time(const AVPacket& packet) {
  return packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
}

std::string at_seconds(const char* what, std::int64_t time_us) {
  char text[96];
  std::snprintf(text, sizeof text, "%s after %.2f s", what, static_cast<double>(time_us) / 1e6);
  return text;
}

}  // namespace

FrameReader::FrameReader(FfmpegInput& input, AvCodec codec, FrameReaderLimit limit,
                         std::optional<std::int64_t> origin, FramesGiven given)
    : input_(input),
      codec_(std::move(codec)),
      limit_(limit),
      begun_(limit.limit->used()),
      strictness_(codec_->err_recognition),
      gives_(given),
      index_(input),
      packets_(input),
      clock_(*input.stream(), origin) {}

Result<bool> FrameReader::next(AVFrame* frame) {
  Result<bool> got = read(frame);
  if (got && *got) {
    clock_.note(*frame);
    progress_.note_given();
    last_picture_.note_given(*frame);
  }
  return got;
}

/// Reads the next frame; in the place of a last picture that is not whole, the one before.
Result<bool> FrameReader::read(AVFrame* frame) {
  if (last_picture_.state() != LastPicture::State::kAwaited) return read_behind_broken(frame);
  Result<bool> got = decode(frame);
  while (gives_ == FramesGiven::kEvery && lacks_references(got)) {
    ISOCOST_ASSIGN(const bool went_back, go_back());
    if (!went_back) break;
    got = decode(frame);
  }
  if (got || got.error().code() != ErrorCode::kCorrupt) return got;
  ISOCOST_ASSIGN(const AVPacket* next, packets_.take());
  if (next != nullptr || !last_picture_.note_broken()) return got;
  avcodec_send_packet(codec_.get(), nullptr);
  return read_behind_broken(frame);
}

Result<bool> FrameReader::read_behind_broken(AVFrame* frame) {
  if (last_picture_.wants_next()) {
    ISOCOST_ASSIGN(const bool has_frame, decode(frame));
    if (has_frame) last_picture_.hold(frame);
  }
  return last_picture_.give(frame);
}

void FrameReader::need_from(std::int64_t time_us) {
  if (gives_ == FramesGiven::kSome) packets_.need_from(clock_.ticks(time_us));
}

Result<bool> FrameReader::decode(AVFrame* frame) {
  for (;;) {
    ISOCOST_TRY(check_limit());
    const int code = avcodec_receive_frame(codec_.get(), frame);
    if (code == 0) {
      if (is_cut_away(*frame)) continue;
      const FrameUse use = progress_.use_of(frame->pts);
      if (use == FrameUse::kRepeat) progress_.note_repeated();
      if (use != FrameUse::kNew) continue;
      if (frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
        if (last_picture_.state() != LastPicture::State::kAwaited) continue;
        return corrupt(at_seconds("its video does not decode", time_us()));
      }
      return true;
    }
    if (code == AVERROR_EOF) return false;
    if (code != AVERROR(EAGAIN) && !leniency_.is_lenient()) {
      return undecodable(code);
    }
    ISOCOST_TRY(send_packet());
  }
}

/// Returns the error for a code of the decoder. It may allocate frames as large as the container
/// says, with room for rounding.
Error FrameReader::undecodable(int code) const {
  // libavcodec keeps the size that it may not allocate, or forgets it.
  const std::int64_t pixels = std::int64_t{codec_->coded_width} * codec_->coded_height;
  const bool is_larger = pixels == 0 || pixels > codec_->max_pixels;
  if (code == AVERROR(ENOMEM) && !is_larger) throw std::bad_alloc();
  if (code == AVERROR(EINVAL) || is_larger) {
    const AVCodecParameters& of_stream = *input_.stream()->codecpar;
    return corrupt(at_seconds("its frames become larger", time_us()) + " than the " +
                   std::to_string(of_stream.width) + "x" + std::to_string(of_stream.height) +
                   " that its container says: encode it anew in one size (ffmpeg -i FILE NEW)");
  }
  return input_.error(code, at_seconds("its video does not decode", time_us()));
}

/// Returns whether an edit list cuts a frame away. libavcodec leaves such frames out, but not those
/// that dav1d hands out.
bool FrameReader::is_cut_away(const AVFrame& frame) { return std::erase(cut_away_, frame.pts) > 0; }

/// Returns whether a jump may be why no frame came: a decoder of H.264 holds back the last pictures
/// of a video, too, if it did not see a group from its beginning.
bool FrameReader::lacks_references(const Result<bool>& got) const {
  if (!got) return got.error().code() == ErrorCode::kCorrupt;
  return !*got && progress_.lacks_frames() && codec_->codec_id == AV_CODEC_ID_H264;
}

Status FrameReader::check_limit() const {
  const double done = limit_.until_us > 0
                          ? static_cast<double>(time_us()) / static_cast<double>(limit_.until_us)
                          : 0;
  return limit_.limit->check(begun_, done);
}

/// Sends the next packet, or tells the decoder that none follows.
Status FrameReader::send_packet() {
  const bool is_first = packets_.state() == PacketFeed::State::kFirst;
  ISOCOST_ASSIGN(const AVPacket* packet, packets_.take());
  // To the decoder, nothing means the end.
  if (packet != nullptr && packet->size == 0) return {};
  const bool has_picture = packet != nullptr && holds_picture(*input_.stream(), *packet);
  if (packet != nullptr) {
    if (is_first) begin(*packet);
    leniency_.note_packet(packet->pts);
    if (has_picture) {
      progress_.note_sent(*packet);
      last_picture_.note_sent(*packet);
    }
    const bool is_cut_away = (packet->flags & AV_PKT_FLAG_DISCARD) != 0;
    if (is_cut_away && codec_->codec_id == AV_CODEC_ID_AV1) cut_away_.push_back(packet->pts);
  } else {
    leniency_.note_end();
  }
  codec_->err_recognition = leniency_.is_lenient() ? 0 : strictness_;
  const int code = avcodec_send_packet(codec_.get(), packet);
  if (packet != nullptr && !has_picture) return {};
  if (code >= 0 || code == AVERROR(EAGAIN) || (packet == nullptr && code == AVERROR_EOF)) return {};
  if (leniency_.is_lenient()) return {};
  return undecodable(code);
}

void FrameReader::begin(const AVPacket& packet) {
  index_.note_first(packet);
  if (begins_in_open_group(*input_.stream(), packet)) leniency_.begin_in_open_group();
}

Result<bool> FrameReader::seek(std::int64_t time_us) {
  const std::int64_t reorder = index_.reorder();
  std::int64_t target = clock_.ticks(time_us) - reorder;
  for (bool jumped = false;; jumped = true) {
    const AVIndexEntry* entry = index_.at_or_before(target);
    const bool beyond = entry != nullptr && entry->timestamp + reorder > clock_.last_ticks();
    const bool unindexed = !beyond && !jumped && may_look_beyond_index(entry, time_us);
    if (!beyond && !jumped && !unindexed) return false;
    const bool has_key = entry != nullptr;  // Jumping may move the index's entries.
    const std::int64_t key = unindexed ? target : (has_key ? entry->timestamp : 0);
    ISOCOST_TRY(jump(key));
    const AVPacket* held = packets_.held();
    const std::int64_t landed = held != nullptr ? packet_time(*held) : key;
    if (unindexed && landed <= clock_.last_ticks()) index_.note_whole();
    // An index may state when a key frame is decoded, not when it is shown.
    if (landed <= clock_.ticks(time_us) || !has_key) return true;
    target = key - 1;
  }
}

/// Whether seeking may find a key frame that the index lacks, and that is worth it.
bool FrameReader::may_look_beyond_index(const AVIndexEntry* entry, std::int64_t time_us) const {
  constexpr std::int64_t kFarUs = 2'000'000;
  return time_us - clock_.time_us() >= kFarUs && index_.may_grow_behind(entry);
}

/// Goes back to an earlier key frame, 1, 2, 4 and 8 before the last: pictures after a key frame of
/// an open group may release references that the jump skipped, which strict decoders refuse.
/// Frames that were returned are not returned again. Returns false if going back does not help
/// or there is no earlier key frame.
Result<bool> FrameReader::go_back() {
  const std::optional<JumpProgress::Landing> from = progress_.retreat();
  if (!from) return false;
  const std::int64_t target = index_.before(from->target, 1 << from->times_back);
  if (target == from->target) return false;
  ISOCOST_TRY(move_to(target));
  progress_.go_back(target);
  leniency_.go_back(from->shown_at, !index_.has_earlier(target));
  return true;
}

/// Begins at a key frame. `target`: its time as the index counts it.
Status FrameReader::jump(std::int64_t target) {
  ISOCOST_TRY(move_to(target));
  const AVPacket* held = packets_.held();
  const bool is_timed = held != nullptr && held->pts != AV_NOPTS_VALUE;
  progress_.jump(target, is_timed ? std::optional(held->pts) : std::nullopt);
  leniency_.jump();
  last_picture_.jump();
  return {};
}

Status FrameReader::move_to(std::int64_t target) {
  avcodec_flush_buffers(codec_.get());
  cut_away_.clear();
  // libavformat seeks in an MP4 by when a key frame is shown, though its index tells when it is
  // decoded.
  return packets_.jump(target + index_.reorder());
}

}  // namespace isocost
