#include "decode/video/internal/packet_feed.h"

#include <cstdint>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"
#include "decode/video/internal/shown_packets.h"

extern "C" {
#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
}

namespace isocost {

Result<const AVPacket*> PacketFeed::take() {
  for (;;) {
    if (state_ != State::kHeld) {
      ISOCOST_ASSIGN(const bool more, read());
      if (!more) {
        state_ = State::kEnded;
        return nullptr;
      }
    }
    const bool is_first = state_ == State::kFirst;
    if (is_first && is_before_key()) continue;
    state_ = State::kFollowing;
    if (is_leading()) continue;
    note_leading(is_first);
    if (is_first || !is_needless()) return packet_.get();
  }
}

Status PacketFeed::jump(std::int64_t ticks) {
  ISOCOST_TRY(input_.seek(ticks));
  key_.reset();
  state_ = State::kFollowing;
  ISOCOST_ASSIGN(const bool more, read());
  if (!more) return {};
  state_ = State::kHeld;
  if (packet_->pts != AV_NOPTS_VALUE) key_ = packet_->pts;
  return {};
}

Result<bool> PacketFeed::read() {
  if (left_ == 0) return false;
  --left_;
  return input_.read_packet(packet_.get());
}

bool PacketFeed::is_before_key() const {
  const AVStream& stream = *input_.stream();
  return begins_with_key_frame(stream.codecpar->codec_id) && !is_key_frame(stream, *packet_);
}

/// Pictures that are shown before the key frame we jumped to, or begin with, but come after it may
/// refer to ones that we do not have. None of them is wanted: the key frame itself is not later
/// than the target.
bool PacketFeed::is_leading() const {
  return key_ && packet_->pts != AV_NOPTS_VALUE && packet_->pts < *key_;
}

/// Leading pictures may come after the first packet, and none after a later picture than the key
/// frame.
void PacketFeed::note_leading(bool is_first) {
  if (packet_->pts == AV_NOPTS_VALUE) return;
  if (key_ && packet_->pts > *key_) key_.reset();
  const bool is_key = (packet_->flags & AV_PKT_FLAG_KEY) != 0;
  if (is_first && is_key && loses_leading_pictures(*input_.stream(), *packet_)) {
    key_ = packet_->pts;
  }
}

/// Decoding costs as much for a picture that nobody sees as for one that is wanted.
bool PacketFeed::is_needless() const {
  return packet_->pts != AV_NOPTS_VALUE && packet_->pts < need_from_ &&
         is_never_referred_to(*input_.stream(), *packet_);
}

}  // namespace isocost
