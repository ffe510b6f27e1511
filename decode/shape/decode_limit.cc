#include "decode/shape/decode_limit.h"

#include <time.h>

#include <cstdio>
#include <string>
#include <utility>

namespace isocost {
namespace {

using std::chrono::nanoseconds;

// Time after which the rate is known well enough to predict.
constexpr std::chrono::seconds kRateIsKnown{1};
// Factor by which a prediction must exceed the limit to refuse.
constexpr double kFarBeyond = 2;

nanoseconds thread_cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string text(const char* format, double value, double limit) {
  char out[160];
  std::snprintf(out, sizeof out, format, value, limit);
  return out;
}

}  // namespace

DecodeLimit::DecodeLimit(nanoseconds cpu_time, std::stop_token stop)
    : limit_(cpu_time), start_(thread_cpu_time()), stop_(std::move(stop)) {}

nanoseconds DecodeLimit::used() const {
  return limit_ == nanoseconds::max() ? nanoseconds(0) : thread_cpu_time() - start_;
}

Status DecodeLimit::check(nanoseconds begun, double done) const {
  if (stop_.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while decoding");
  const nanoseconds used_now = used();
  if (used_now > limit_) {
    return Error(
        ErrorCode::kResourceExhausted,
        text("decoding it has taken %.3g s of CPU time and decode_timeout allows %.3g: raise it",
             seconds(used_now), seconds(limit_)));
  }
  const nanoseconds of_this = used_now - begun;
  if (done <= 0 || of_this < kRateIsKnown) return {};
  const double predicted = seconds(begun) + seconds(of_this) / done;
  if (predicted <= kFarBeyond * seconds(limit_)) return {};
  return Error(
      ErrorCode::kResourceExhausted,
      text("decoding it would take about %.3g s of CPU time, at the rate of its first part, "
           "and decode_timeout allows %.3g: raise it",
           predicted, seconds(limit_)));
}

}  // namespace isocost
