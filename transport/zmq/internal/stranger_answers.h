#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace isocost {

/// Limits answers to peers without a rank: a thousand at first and then a hundred per second for
/// all of them together, and a thousand for each. A peer that never reads its refusals therefore
/// costs little memory. Single-thread.
class StrangerAnswers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Counts an answer to the peer at `address`. Returns false, without counting, if a limit is
  /// reached.
  bool may_answer(const std::string& address, Time now) {
    constexpr double kMost = 1000;
    constexpr double kEachSecond = 100;
    constexpr std::size_t kMostAddresses = 10'000;
    const double passed = std::chrono::duration<double>(now - last_).count();
    left_ = std::min(kMost, left_ + std::max(0.0, passed) * kEachSecond);
    last_ = now;
    if (answered_.size() >= kMostAddresses) answered_.clear();
    std::uint32_t& count = answered_[address];
    if (left_ < 1 || count >= kMost) return false;
    left_ -= 1;
    ++count;
    return true;
  }

 private:
  double left_ = 1000;
  Time last_;
  std::unordered_map<std::string, std::uint32_t> answered_;
};

}  // namespace isocost
