#include "trainer_adapter/internal/block_sessions.h"

#include <utility>

namespace isocost {
namespace {

// A client that loses its Unix socket this many times without a microbatch in between receives over
// ZeroMQ.
constexpr int kMaxLosses = 3;

}  // namespace

std::optional<std::string> BlockSessions::attach(const SharedMemoryOffer& offer,
                                                 std::chrono::milliseconds patience) {
  receiver_ = nullptr;
  patience_ = patience;
  join_again_.reset();
  if (offer.socket.empty()) return std::nullopt;
  if (losses_ < kMaxLosses) {
    auto attached = BlockReceiver::attach(offer);
    if (attached) {
      receiver_ = *std::move(attached);
      return std::nullopt;
    }
    if (attached.error().code() == ErrorCode::kUnavailable) {
      lose(attached.error().message());
      return std::nullopt;
    }
    losses_ = kMaxLosses;
    why_not_ = attached.error().message();
  }
  if (why_not_.empty()) return std::nullopt;
  return std::exchange(why_not_, {});
}

Result<std::optional<BlockReceiver::Delivered>> BlockSessions::receive() {
  if (receiver_ == nullptr) return std::optional<BlockReceiver::Delivered>();
  auto received = receiver_->receive();
  if (received) {
    if (received->has_value()) losses_ = 0;
    return received;
  }
  receiver_ = nullptr;
  if (received.error().code() != ErrorCode::kUnavailable) return received;
  // The socket may have been closed because the node begins another session, whose welcome is on
  // its way; the client then attaches again.
  lose(received.error().message());
  return std::optional<BlockReceiver::Delivered>();
}

void BlockSessions::lose(std::string why) {
  why_not_ = std::move(why);
  join_again_ = Clock::now() + patience_;
}

bool BlockSessions::needs_session() {
  if (!join_again_ || Clock::now() < *join_again_) return false;
  join_again_.reset();
  losses_ += 1;
  return true;
}

}  // namespace isocost
