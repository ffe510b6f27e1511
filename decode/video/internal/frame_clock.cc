#include "decode/video/internal/frame_clock.h"

#include <cstdint>

extern "C" {
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/frame.h>
#include <libavutil/mathematics.h>
#include <libavutil/rational.h>
}

namespace isocost {

void FrameClock::note(const AVFrame& frame) {
  const AVRational time_base = stream_.time_base;
  const std::int64_t interval = av_rescale_q(interval_us_, AV_TIME_BASE_Q, time_base);
  // The best effort takes the time of decoding where two frames have one time.
  std::int64_t at = frame.pts != AV_NOPTS_VALUE ? frame.pts : frame.best_effort_timestamp;
  if (at == AV_NOPTS_VALUE) at = origin_ ? last_ticks_ + interval : 0;
  const std::int64_t origin = origin_.value_or(at);
  origin_ = origin;
  const std::int64_t time_us =
      av_rescale_q_rnd(at - origin, time_base, AV_TIME_BASE_Q, AV_ROUND_DOWN);
  if (frame.pkt_duration > 0) {
    interval_us_ = av_rescale_q(frame.pkt_duration, time_base, AV_TIME_BASE_Q);
  } else if (time_us > time_us_) {
    interval_us_ = time_us - time_us_;
  }
  last_ticks_ = at;
  time_us_ = time_us;
}

std::int64_t FrameClock::ticks(std::int64_t time_us) const {
  return origin_.value_or(0) +
         av_rescale_q_rnd(time_us, AV_TIME_BASE_Q, stream_.time_base, AV_ROUND_DOWN);
}

}  // namespace isocost
