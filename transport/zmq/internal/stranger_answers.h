#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace isocost {

/// How often peers without a rank are answered: a hundred times a second all together, after a
/// first thousand, and a thousand times each. What is refused costs no memory then, even if the
/// peer never reads it. Single-thread.
class StrangerAnswers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Counts an answer to the peer at `address`, if there may be one.
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
