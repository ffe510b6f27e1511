#include "decode/video/internal/leniency.h"

#include <cstdint>
#include <optional>

namespace isocost {

void Leniency::begin_in_open_group() {
  begins_open_ = true;
  state_ = State::kLenient;
  packets_left_ = kLongestMemory;
  strict_from_ = std::nullopt;
}

void Leniency::jump() { state_ = State::kStrict; }

void Leniency::go_back(std::int64_t key, bool to_first) {
  state_ = State::kLenient;
  packets_left_ = begins_open_ && to_first ? kLongestMemory : 0;
  strict_from_ = key;
}

void Leniency::note_packet(std::int64_t pts) {
  if (state_ == State::kStrict) return;
  if (packets_left_ > 0) {
    --packets_left_;
  } else if (!strict_from_ || pts >= *strict_from_) {
    state_ = State::kStrict;
  }
}

}  // namespace isocost
