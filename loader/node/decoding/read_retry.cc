#include "loader/node/decoding/read_retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLongestInterval{1};
constexpr std::chrono::seconds kBetweenMessages{10};

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Status ReadRetry::Pause::wait(const Error& cause, const std::stop_token& stop) {
  if (!waits_) retry_.enter();
  waits_ = true;
  retry_.tell(cause);
  ISOCOST_TRY(retry_.wait(cause, interval_, stop));
  interval_ = std::min<std::chrono::nanoseconds>(2 * interval_, kLongestInterval);
  return {};
}

void ReadRetry::enter() {
  const MutexLock lock(mutex_);
  if (waiting_++ > 0) return;
  since_ = Clock::now();
  told_.reset();
}

void ReadRetry::leave(bool succeeded) {
  std::string ended;
  {
    const MutexLock lock(mutex_);
    if (--waiting_ > 0) return;
    if (told_ && succeeded) {
      ended = fmt::format("reads succeed again after {:.1f} s: delivery goes on",
                          in_seconds(Clock::now() - since_));
    }
  }
  if (!ended.empty()) log(options_.announce, LogLevel::kWarning, ended);
}

void ReadRetry::tell(const Error& cause) {
  std::string text;
  {
    const MutexLock lock(mutex_);
    const MonotonicTime now = Clock::now();
    const bool due = told_ ? now - *told_ >= kBetweenMessages : now - since_ >= options_.quiet;
    if (!due || timed_out_) return;
    told_ = now;
    text = fmt::format(
        "delivery is paused since {:.0f} s, and the job ends after {:g} s "
        "(io_timeout): {}",
        in_seconds(now - since_), in_seconds(options_.timeout), cause.message());
  }
  log(options_.announce, LogLevel::kWarning, text);
}

Status ReadRetry::wait(const Error& cause, std::chrono::nanoseconds interval,
                       const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const MonotonicTime deadline = since_ + options_.timeout;
  changed_.wait_until(mutex_, stop, std::min(Clock::now() + interval, deadline),
                      [this]() ISOCOST_REQUIRES(mutex_) { return timed_out_; });
  if (stop.stop_requested()) {
    return Error(ErrorCode::kCancelled, "stopped while reads failed: " + cause.message());
  }
  if (!timed_out_ && Clock::now() < deadline) return {};
  timed_out_ = true;
  changed_.notify_all();
  return Error(ErrorCode::kIo, fmt::format("{} (io_timeout: reads have failed for {:g} s)",
                                           cause.message(), in_seconds(options_.timeout)));
}

double ReadRetry::paused_s() const {
  const MutexLock lock(mutex_);
  return waiting_ == 0 ? 0 : in_seconds(Clock::now() - since_);
}

}  // namespace isocost
