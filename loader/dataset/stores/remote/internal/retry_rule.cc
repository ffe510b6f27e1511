#include "loader/dataset/stores/remote/internal/retry_rule.h"

#include <algorithm>
#include <array>

#include "loader/dataset/stores/remote/header_values.h"

namespace isocost {
namespace {

constexpr std::array kPassingStatus{408, 429, 500, 502, 503, 504};
constexpr std::chrono::milliseconds kFirstPause(100);
constexpr std::chrono::milliseconds kLongestPause = std::chrono::seconds(10);
// More doublings do not make the pause longer.
constexpr int kMostDoublings = 7;

std::chrono::milliseconds asked_pause(const HttpResponse& response, std::int64_t now_s) {
  const std::int64_t servers_now = parse_http_date(response.header("date")).value_or(now_s);
  return parse_retry_after(response.header("retry-after"), servers_now)
      .value_or(std::chrono::seconds(0));
}

}  // namespace

bool may_pass(const Result<HttpResponse>& outcome) {
  if (!outcome) return outcome.error().code() == ErrorCode::kUnavailable;
  return std::find(kPassingStatus.begin(), kPassingStatus.end(), outcome->status) !=
         kPassingStatus.end();
}

bool asks_to_wait(const Result<HttpResponse>& outcome) {
  return outcome && (outcome->status == 429 || outcome->status == 503);
}

std::chrono::milliseconds retry_pause(const Result<HttpResponse>& outcome, int times,
                                      std::int64_t now_s, Random& random) {
  const int doublings = std::clamp(times - 1, 0, kMostDoublings);
  const auto longest = std::min(kFirstPause * (1 << doublings), kLongestPause);
  const std::chrono::milliseconds drawn(
      random.below(static_cast<std::uint64_t>(longest.count()) + 1));
  // The random part also spreads those who were all given the same time to wait.
  return outcome ? asked_pause(*outcome, now_s) + drawn : drawn;
}

}  // namespace isocost
