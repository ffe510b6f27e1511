#include "loader/dataset/stores/remote/internal/in_flight_limit.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr std::size_t kFirst = 16;

}  // namespace

InFlightLimit::InFlightLimit(std::size_t most)
    : most_(std::max<std::size_t>(most, 1)), allowed_(std::min(most_, kFirst)) {}

void InFlightLimit::answered(bool more_waiting) {
  if (!more_waiting || allowed_ == most_) return;
  ++answered_in_round_;
  const bool throttled_before = period_ > 0;
  if (throttled_before && answered_in_round_ < allowed_) return;
  ++allowed_;
  answered_in_round_ = 0;
}

void InFlightLimit::throttled(std::uint64_t sent_in) {
  if (sent_in != period_) return;
  allowed_ = std::max<std::size_t>(allowed_ / 2, 1);
  answered_in_round_ = 0;
  ++period_;
}

}  // namespace isocost
