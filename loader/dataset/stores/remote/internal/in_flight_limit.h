#pragma once

#include <cstddef>
#include <cstdint>

namespace isocost {

/// Says how many requests may be in flight to one server: additive increase, multiplicative
/// decrease, as TCP's congestion window has them. The number doubles each round of responses until
/// the server first asks to wait, and then grows by one a round. It grows only while more requests
/// stand in the queue. Pure; single-thread.
class InFlightLimit {
 public:
  /// `most` is at least 1.
  explicit InFlightLimit(std::size_t most);

  std::size_t allowed() const { return allowed_; }
  /// Returns the period between two decreases in which a request is sent now.
  std::uint64_t period() const { return period_; }

  /// Notes a response that does not ask to wait. `more_waiting`: whether further requests would be
  /// in flight, if the number were higher.
  void answered(bool more_waiting);
  /// Notes a response that asks to wait, to a request that was sent in `sent_in`. The number is
  /// halved once for all requests of a period, since they were sent under the same number.
  void throttled(std::uint64_t sent_in);

 private:
  std::size_t most_;
  std::size_t allowed_;
  std::size_t answered_in_round_ = 0;
  std::uint64_t period_ = 0;
};

}  // namespace isocost
