#include "decode/video/internal/last_picture.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "decode/bytes/ffmpeg_input.h"

extern "C" {
#include <libavcodec/packet.h>
#include <libavutil/avutil.h>
#include <libavutil/frame.h>
}

namespace isocost {
namespace {

/// Makes `to` another reference to a frame.
void refer(AVFrame* to, const AVFrame& frame) {
  av_frame_unref(to);
  if (av_frame_ref(to, &frame) < 0) throw std::bad_alloc();
}

bool has_picture(const AvFrame& frame) { return frame->buf[0] != nullptr; }

}  // namespace

void LastPicture::note_sent(const AVPacket& packet) {
  sent_ = packet.pts;
  is_shown_ = (packet.flags & AV_PKT_FLAG_DISCARD) == 0;
  is_untimed_ = sent_ == AV_NOPTS_VALUE;
  if (is_shown_ && !is_untimed_)
    owed_.insert(std::upper_bound(owed_.begin(), owed_.end(), sent_), sent_);
}

void LastPicture::note_given(const AVFrame& frame) {
  refer(before_.get(), frame);
  // Pictures come in the order in which they are shown, so that none before this one will come.
  if (frame.pts == AV_NOPTS_VALUE) return;
  owed_.erase(owed_.begin(), std::upper_bound(owed_.begin(), owed_.end(), frame.pts));
}

void LastPicture::jump() {
  state_ = State::kAwaited;
  owed_.clear();
  av_frame_unref(before_.get());
  av_frame_unref(next_.get());
}

bool LastPicture::note_broken() {
  const bool can_stand = state_ == State::kAwaited && is_shown_ && has_picture(before_);
  if (can_stand) state_ = State::kBroken;
  return can_stand;
}

bool LastPicture::wants_next() const { return !has_picture(next_); }

void LastPicture::hold(AVFrame* next) { av_frame_move_ref(next_.get(), next); }

bool LastPicture::give(AVFrame* frame) {
  const bool has_next = has_picture(next_);
  const bool is_timed = has_next && next_->pts != AV_NOPTS_VALUE;
  const std::int64_t due = owed_.empty() ? sent_ : owed_.front();
  const bool is_due = has_next && (!is_timed || next_->pts < due || owed_.empty() ||
                                   (next_->pts == due && due != sent_));
  if (is_due) {
    av_frame_unref(frame);
    av_frame_move_ref(frame, next_.get());
    return true;
  }
  if (owed_.empty() && !is_untimed_) return false;
  is_untimed_ = false;
  if (is_timed && next_->pts == due) av_frame_unref(next_.get());  // the broken one itself
  refer(frame, *before_);
  frame->pts = frame->best_effort_timestamp = due;
  return true;
}

}  // namespace isocost
