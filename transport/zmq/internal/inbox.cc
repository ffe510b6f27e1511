#include "transport/zmq/internal/inbox.h"

#include <cstddef>
#include <utility>

#include "transport/zmq/internal/frames.h"

namespace isocost {
namespace {

// Messages that are read at once to find those of one address. A flood of others ends it.
constexpr std::size_t kMostReadAhead = 100'000;

}  // namespace

Inbox::Frames Inbox::next() {
  if (unread_.empty()) return receive_frames(socket_);
  Frames frames = std::move(unread_.front());
  unread_.pop_front();
  return frames;
}

std::vector<Inbox::Frames> Inbox::take_of(const std::string& address) {
  for (std::size_t i = 0; i < kMostReadAhead; ++i) {
    Frames frames = receive_frames(socket_);
    if (frames.empty()) break;
    unread_.push_back(std::move(frames));
  }
  std::vector<Frames> its;
  for (Frames& frames : std::exchange(unread_, {})) {
    const bool is_its = frames.front().to_string_view() == address;
    if (is_its) {
      its.push_back(std::move(frames));
    } else {
      unread_.push_back(std::move(frames));
    }
  }
  return its;
}

}  // namespace isocost
