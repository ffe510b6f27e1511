#include "decode/video/internal/jump_progress.h"

#include <cstdint>
#include <optional>

extern "C" {
#include <libavcodec/packet.h>
}

namespace isocost {

JumpProgress::State JumpProgress::state() const {
  if (!landing_) return State::kStarted;
  return landing_->times_back == 0 ? State::kJumped : State::kWentBack;
}

void JumpProgress::jump(std::int64_t target, std::optional<std::int64_t> shown_at) {
  landing_.reset();
  if (shown_at) landing_ = Landing{target, *shown_at};
}

void JumpProgress::go_back(std::int64_t target) {
  if (!landing_) return;
  landing_->target = target;
  landing_->sent = 0;
  landing_->to_repeat = landing_->given;
  ++landing_->times_back;
}

void JumpProgress::note_sent(const AVPacket& packet) {
  if (!landing_ || packet.pts < landing_->shown_at) return;
  if ((packet.flags & AV_PKT_FLAG_DISCARD) == 0) ++landing_->sent;
}

void JumpProgress::note_given() {
  if (landing_) ++landing_->given;
}

void JumpProgress::note_repeated() {
  if (landing_) --landing_->to_repeat;
}

FrameUse JumpProgress::use_of(std::int64_t pts) const {
  if (!landing_ || landing_->times_back == 0) return FrameUse::kNew;
  if (pts < landing_->shown_at) return FrameUse::kWarmUp;
  return landing_->to_repeat > 0 ? FrameUse::kRepeat : FrameUse::kNew;
}

bool JumpProgress::lacks_frames() const { return landing_ && landing_->given < landing_->sent; }

std::optional<JumpProgress::Landing> JumpProgress::retreat() const {
  constexpr int kMostTimes = 4;
  return landing_ && landing_->times_back < kMostTimes ? landing_ : std::nullopt;
}

}  // namespace isocost
