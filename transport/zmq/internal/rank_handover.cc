#include "transport/zmq/internal/rank_handover.h"

#include <algorithm>
#include <utility>

#include "transport/zmq/internal/frames.h"

namespace isocost {
namespace {

// Messages that are read at once to find those of a client that is gone. A flood of others ends it.
constexpr std::size_t kMostReadAhead = 100'000;

}  // namespace

RankHandover::RankHandover(RankHolders& holders, Context context)
    : holders_(holders), context_(std::move(context)) {}

std::vector<zmq::message_t> RankHandover::next_frames() {
  if (unread_.empty()) return context_.receive();
  std::vector<zmq::message_t> frames = std::move(unread_.front());
  unread_.pop_front();
  return frames;
}

// The other client may have stopped, or its machine may be gone with the connection left open, so
// it is known to be alive only if it sends something after another client asked for the rank.
std::optional<Refusal> RankHandover::check_rank_is_free(const Hello& hello) {
  if (!holders_.is_held_by_another(hello) || has_left(hello.rank)) return std::nullopt;
  const std::string rank = context_.rank_name(hello.rank);
  if (holders_.challenge(hello.rank)) {
    return Refusal{
        ErrorCode::kAlreadyExists,
        rank + " is taken by another client, which is alive: give each process its own rank"};
  }
  return Refusal{ErrorCode::kUnavailable,
                 rank +
                     " is held by another client: it is free when that client is gone, or has sent "
                     "nothing for the heartbeat time-out"};
}

bool RankHandover::has_left(std::int32_t rank) {
  const std::string* held = holders_.address_of(rank);
  if (held == nullptr) return true;
  const std::string address = *held;
  if (context_.is_connected(address)) return false;
  take_unread(address);  // its last acknowledgement, and that it leaves
  if (holders_.rank_of(address)) context_.lost(rank);
  return true;
}

// Takes what the client at an address has sent that was not handled yet. Its connection is gone: it
// sends nothing more, and gets no answer.
void RankHandover::take_unread(const std::string& address) {
  for (std::size_t i = 0; i < kMostReadAhead; ++i) {
    std::vector<zmq::message_t> frames = context_.receive();
    if (frames.empty()) break;
    unread_.push_back(std::move(frames));
  }
  for (std::vector<zmq::message_t>& frames : std::exchange(unread_, {})) {
    if (frames.size() != 2 || frames[0].to_string_view() != address) {
      unread_.push_back(std::move(frames));
      continue;
    }
    const auto message = decode(bytes_of(frames[1]));
    const auto rank = holders_.heard(address);
    if (message && rank) context_.take(*rank, *message);
  }
}

bool RankHandover::is_only_client(const Hello& hello) {
  const auto holders = holders_.all();
  return std::all_of(holders.begin(), holders.end(), [&](const auto& holder) {
    const bool itself = holder.first == hello.rank && holders_.is_same_client(hello);
    return itself || has_left(holder.first);
  });
}

}  // namespace isocost
