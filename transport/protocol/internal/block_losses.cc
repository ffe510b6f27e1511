#include "transport/protocol/internal/block_losses.h"

#include <utility>

namespace isocost {
namespace {

// A client that loses its Unix socket this many times without a microbatch in between receives over
// ZeroMQ.
constexpr int kMaxLosses = 3;

}  // namespace

bool BlockLosses::begin_session(const SharedMemoryOffer& offer, std::chrono::milliseconds patience,
                                RankActions& actions) {
  patience_ = patience;
  join_again_.reset();
  if (offer.socket.empty()) return false;
  if (losses_ < kMaxLosses) return true;
  tell_why_not(actions);
  return false;
}

void BlockLosses::attach(Time now, const Status& attached, RankActions& actions) {
  if (attached) return;
  if (attached.error().code() == ErrorCode::kUnavailable) {
    return lose(now, attached.error().message());
  }
  losses_ = kMaxLosses;
  why_not_ = attached.error().message();
  tell_why_not(actions);
}

void BlockLosses::lose(Time now, std::string why) {
  why_not_ = std::move(why);
  join_again_ = now + patience_;
}

bool BlockLosses::needs_session(Time now) {
  if (!join_again_ || now < *join_again_) return false;
  join_again_.reset();
  losses_ += 1;
  return true;
}

void BlockLosses::tell_why_not(RankActions& actions) {
  if (why_not_.empty()) return;
  actions.emplace_back(
      LogLine{LogLevel::kInfo, "microbatches come over the socket and not in shared memory: " +
                                   std::exchange(why_not_, {})});
}

}  // namespace isocost
