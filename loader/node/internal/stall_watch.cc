#include "loader/node/internal/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/thread_name.h"

namespace isocost {
namespace {

using std::chrono::nanoseconds;

double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

StallWatch::StallWatch(Options options) : options_(std::move(options)) {
  if (options_.timeout <= nanoseconds(0)) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void StallWatch::watch(const std::stop_token& stop) {
  name_thread("isocost-stall");
  const nanoseconds interval = std::clamp<nanoseconds>(
      options_.timeout / 8, std::chrono::milliseconds(20), std::chrono::seconds(5));
  const MonotonicClock clock = steady_clock();
  MonotonicTime last = clock();
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex_);
      never_.wait_for(mutex_, stop, interval, [] { return false; });
    }
    const MonotonicTime now = clock();
    // After a stop of the process, far more time has passed than the wait was for; at most twice
    // the interval counts.
    if (!stop.stop_requested()) look(std::min<nanoseconds>(now - last, 2 * interval));
    last = now;
  }
}

void StallWatch::look(nanoseconds passed) {
  const Activity activity = options_.activity();
  const bool goes_on = activity.changes != changes_;
  changes_ = activity.changes;
  if (goes_on || !activity.expected) {
    still_ = nanoseconds(0);
    if (!std::exchange(told_, "").empty()) end(goes_on);
    return;
  }
  still_ += passed;
  if (still_ >= options_.timeout) begin(still_);
}

void StallWatch::begin(nanoseconds still) {
  std::string obstacle = options_.obstacle();
  {
    const MutexLock lock(mutex_);
    stall_ = {seconds(still), obstacle};
  }
  if (std::exchange(told_, obstacle) == obstacle) return;
  log(options_.announce, LogLevel::kWarning,
      fmt::format("training has stood still for {:.0f} s (stall_timeout): {}", seconds(still),
                  obstacle));
}

void StallWatch::end(bool goes_on) {
  {
    const MutexLock lock(mutex_);
    stall_ = {};
  }
  if (goes_on) log(options_.announce, LogLevel::kWarning, "training goes on");
}

StallWatch::Stall StallWatch::stall() const {
  const MutexLock lock(mutex_);
  return stall_;
}

}  // namespace isocost
