#include "decode/video/internal/frame_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/bytes/media_bytes.h"
#include "decode/video/internal/shown_packets.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libavutil/mathematics.h>
}

namespace isocost {
namespace {

/// Packets after which a decoder holds no earlier picture: 16 references, and others.
constexpr std::int64_t kLongestMemory = 64;

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
      packet_(make_av_packet()),
      limit_(limit),
      begun_(limit.limit->used()),
      index_is_whole_(std::string_view(input.context()->iformat->name) != "matroska,webm"),
      strictness_(codec_->err_recognition),
      gives_(given),
      origin_(origin) {}

Result<bool> FrameReader::next(AVFrame* frame) {
  Result<bool> got = decode(frame);
  while (gives_ == FramesGiven::kEvery && lacks_references(got)) {
    ISOCOST_ASSIGN(const bool went_back, go_back());
    if (!went_back) break;
    got = decode(frame);
  }
  if (got && *got) {
    note_time(*frame);
    ++given_;
  }
  return got;
}

Result<bool> FrameReader::decode(AVFrame* frame) {
  for (;;) {
    ISOCOST_TRY(check_limit());
    const int code = avcodec_receive_frame(codec_.get(), frame);
    if (code == 0) {
      if (!is_wanted(*frame)) continue;
      if (frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
        return corrupt(at_seconds("its video does not decode", time_us_));
      }
      return true;
    }
    if (code == AVERROR_EOF) return false;
    if (code != AVERROR(EAGAIN) && !is_lenient_) {
      return input_.error(code, at_seconds("its video does not decode", time_us_));
    }
    ISOCOST_TRY(send_packet());
  }
}

/// Returns whether a jump may be why no frame came: a decoder of H.264 holds back the last pictures
/// of a video, too, where it did not see a group from its beginning.
bool FrameReader::lacks_references(const Result<bool>& got) const {
  if (!got) return got.error().code() == ErrorCode::kCorrupt;
  return !*got && landed_at_ && given_ < sent_ && codec_->codec_id == AV_CODEC_ID_H264;
}

void FrameReader::set_lenient(bool lenient, std::int64_t packets) {
  is_lenient_ = lenient;
  lenient_packets_ = packets;
  codec_->err_recognition = lenient ? 0 : strictness_;
}

bool FrameReader::is_wanted(const AVFrame& frame) {
  if (warm_up_ && frame.pts < *warm_up_) return false;
  if (to_skip_ == 0) return true;
  --to_skip_;
  return false;
}

Status FrameReader::check_limit() const {
  const double done = limit_.until_us > 0
                          ? static_cast<double>(time_us_) / static_cast<double>(limit_.until_us)
                          : 0;
  return limit_.limit->check(begun_, done);
}

Status FrameReader::send_packet() {
  do {
    if (!pending_) {
      ISOCOST_ASSIGN(pending_, input_.read_packet(packet_.get()));
    }
  } while (pending_ && (is_leading(*packet_) || is_needless(*packet_)));
  draining_ = !pending_;
  if (pending_ && first_packet_ && index_is_whole_ && packet_->pts != AV_NOPTS_VALUE &&
      packet_->dts != AV_NOPTS_VALUE) {
    reorder_ = std::clamp<std::int64_t>(packet_->pts - packet_->dts, 0, INT32_MAX);
  }
  if (pending_ && first_packet_) begin();
  first_packet_ = false;
  if (is_lenient_ && is_warm()) set_lenient(false);
  if (pending_ && is_shown_since_jump(*packet_)) ++sent_;
  const int code = avcodec_send_packet(codec_.get(), pending_ ? packet_.get() : nullptr);
  pending_ = false;
  if (code >= 0 || code == AVERROR(EAGAIN) || (draining_ && code == AVERROR_EOF)) return {};
  if (is_lenient_) return {};
  return input_.error(code, at_seconds("its video does not decode", time_us_));
}

/// Prepares for a video that was cut in an open group: its pictures may release references that are
/// missing, which strict decoders refuse.
void FrameReader::begin() {
  const bool is_key = (packet_->flags & AV_PKT_FLAG_KEY) != 0 && packet_->pts != AV_NOPTS_VALUE;
  if (is_key && loses_leading_pictures(codec_->codec_id)) key_ = packet_->pts;
  begins_open_ = begins_in_open_group(*input_.video(), *packet_);
  if (begins_open_) set_lenient(true, kLongestMemory);
}

/// Returns whether a lenient decoder has all references from this packet on.
bool FrameReader::is_warm() {
  if (draining_) return true;
  const bool has_begun = --lenient_packets_ < 0;
  return has_begun && (!warm_up_ || packet_->pts >= *warm_up_);
}

/// Returns whether to skip a leading picture: one that comes after the key frame we jumped to or
/// began with, but is shown before it, may refer to missing pictures. None of them is wanted, since
/// the key frame itself is not later than the target.
bool FrameReader::is_leading(const AVPacket& packet) {
  if (!key_ || packet.pts == AV_NOPTS_VALUE) return false;
  if (packet.pts < *key_) {
    pending_ = false;
    return true;
  }
  if (packet.pts > *key_) key_.reset();
  return false;
}

/// Returns whether to skip a picture that is not wanted, and that no other picture needs: decoding
/// it would cost as much as decoding a wanted one.
bool FrameReader::is_needless(const AVPacket& packet) {
  if (gives_ == FramesGiven::kEvery || first_packet_) return false;
  if (packet.pts == AV_NOPTS_VALUE || packet.pts >= need_from_) return false;
  if (!is_never_referred_to(*input_.video(), packet)) return false;
  pending_ = false;
  return true;
}

bool FrameReader::is_shown_since_jump(const AVPacket& packet) const {
  return landed_at_ && packet.pts >= *landed_at_ && (packet.flags & AV_PKT_FLAG_DISCARD) == 0;
}

void FrameReader::note_time(const AVFrame& frame) {
  const AVRational time_base = input_.video()->time_base;
  const std::int64_t interval = av_rescale_q(interval_us_, AV_TIME_BASE_Q, time_base);
  // FFmpeg's best-effort time would be the decoding time where two frames have one time.
  std::int64_t at = frame.pts != AV_NOPTS_VALUE ? frame.pts : frame.best_effort_timestamp;
  if (at == AV_NOPTS_VALUE) at = origin_ ? last_ + interval : 0;
  const std::int64_t origin = origin_.value_or(at);
  origin_ = origin;
  const std::int64_t time_us =
      av_rescale_q_rnd(at - origin, time_base, AV_TIME_BASE_Q, AV_ROUND_DOWN);
  if (frame.pkt_duration > 0) {
    interval_us_ = av_rescale_q(frame.pkt_duration, time_base, AV_TIME_BASE_Q);
  } else if (time_us > time_us_) {
    interval_us_ = time_us - time_us_;
  }
  last_ = at;
  time_us_ = time_us;
}

std::int64_t FrameReader::ticks(std::int64_t time_us) const {
  return origin_.value_or(0) +
         av_rescale_q_rnd(time_us, AV_TIME_BASE_Q, input_.video()->time_base, AV_ROUND_DOWN);
}

Result<bool> FrameReader::seek(std::int64_t time_us) {
  AVStream* stream = input_.video();
  std::int64_t target = ticks(time_us) - reorder_;
  for (bool jumped = false;; jumped = true) {
    const AVIndexEntry* entry =
        avformat_index_get_entry_from_timestamp(stream, target, AVSEEK_FLAG_BACKWARD);
    const bool beyond = entry != nullptr && entry->timestamp + reorder_ > last_;
    const bool unindexed = !beyond && !jumped && may_know_more(entry, time_us);
    if (!beyond && !jumped && !unindexed) return false;
    const std::int64_t key = unindexed ? target : (entry != nullptr ? entry->timestamp : 0);
    ISOCOST_TRY(jump(key));
    const std::int64_t landed = pending_ ? packet_time(*packet_) : key;
    if (unindexed && landed <= last_) index_is_whole_ = true;
    // An index may contain the time at which a key frame is decoded, not shown.
    if (landed <= ticks(time_us) || entry == nullptr) return true;
    target = key - 1;
  }
}

/// Returns whether a seek may find more key frames. Matroska's index is read, or made from the
/// clusters, only on a seek. After a seek that found none, it is not tried again.
bool FrameReader::may_know_more(const AVIndexEntry* entry, std::int64_t time_us) const {
  constexpr std::int64_t kFarUs = 2'000'000;
  if (index_is_whole_ || time_us - time_us_ < kFarUs) return false;
  AVStream* stream = input_.video();
  const int entries = avformat_index_get_entries_count(stream);
  return entry == nullptr || entry == avformat_index_get_entry(stream, entries - 1);
}

/// Begins again at an earlier key frame, 1, 2, 4 and 8 before the last: pictures after a key frame
/// of an open group may release references that the jump skipped, which strict decoders refuse.
/// Frames that were returned are not returned again. Returns false where going back does not help
/// or there is no earlier key frame.
Result<bool> FrameReader::go_back() {
  constexpr int kMostTimes = 4;
  if (!landed_at_ || went_back_ == kMostTimes) return false;
  const auto before = [&](std::int64_t key) {
    return avformat_index_get_entry_from_timestamp(input_.video(), key - 1, AVSEEK_FLAG_BACKWARD);
  };
  std::int64_t target = jumped_to_;
  for (int i = 0; i < 1 << went_back_ && before(target) != nullptr; ++i) {
    target = before(target)->timestamp;
  }
  if (target == jumped_to_) return false;
  const auto [key, given, times] = std::tuple{landed_at_, given_, went_back_};
  ISOCOST_TRY(jump(target));
  landed_at_ = warm_up_ = key;
  given_ = to_skip_ = given;
  went_back_ = times + 1;
  set_lenient(true, begins_open_ && before(target) == nullptr ? kLongestMemory : 0);
  return true;
}

Status FrameReader::jump(std::int64_t target) {
  // libavformat seeks in an MP4 by the time at which a key frame is shown, though its index
  // contains the decoding time.
  ISOCOST_TRY(input_.seek(target + reorder_));
  avcodec_flush_buffers(codec_.get());
  draining_ = false;
  key_.reset();
  ISOCOST_ASSIGN(pending_, input_.read_packet(packet_.get()));
  if (pending_ && packet_->pts != AV_NOPTS_VALUE) key_ = packet_->pts;
  jumped_to_ = target;
  landed_at_ = key_;
  given_ = sent_ = to_skip_ = 0;
  warm_up_.reset();
  set_lenient(false);
  went_back_ = 0;
  return {};
}

}  // namespace isocost
