#include "transport/protocol/coordinator.h"

#include <optional>

#include "base/range.h"

namespace isocost {
namespace {

/// Returns what a rank's message tells the node; nothing if that is nothing. Credit that was
/// granted in another session is void.
std::optional<ClientEvent> event_of(std::int32_t rank, std::uint64_t session,
                                    const Message& message) {
  if (const auto* credit = std::get_if<Credit>(&message)) {
    if (credit->session != session) return std::nullopt;
    return CreditGranted{rank, credit->microbatches};
  }
  if (const auto* done = std::get_if<Acknowledgement>(&message)) {
    return Acknowledged{rank, done->position};
  }
  if (const auto* report = std::get_if<Report>(&message)) return Reported{rank, *report};
  if (const auto* profile = std::get_if<ProfileUpdate>(&message)) {
    return ProfileReceived{rank, *profile};
  }
  return std::nullopt;
}

}  // namespace

const std::string* Coordinator::depends_on(const Hello& hello) const {
  if (holders_.is_held_by_another(hello)) return holders_.address_of(hello.rank);
  const std::optional<std::int32_t> other = holders_.held_by_another(hello);
  return other ? holders_.address_of(*other) : nullptr;
}

// Another client may have stopped, or its machine may be gone with the connection left open, so it
// is known to be alive only if it sends something after the rank was asked for.
JoinRequest Coordinator::request(const Hello& hello, Time now) {
  JoinRequest request{hello, holders_.is_same_client(hello), !holders_.held_by_another(hello), {}};
  if (!holders_.is_held_by_another(hello)) return request;
  const std::string rank = options_.rank_name(hello.rank);
  if (holders_.challenge(hello.rank, now)) {
    request.rank_taken = Refusal{
        ErrorCode::kAlreadyExists,
        rank + " is taken by another client, which is alive: give each process its own rank"};
  } else {
    request.rank_taken =
        Refusal{ErrorCode::kUnavailable,
                rank +
                    " is held by another client: it is free when that client is gone, or has sent "
                    "nothing for the heartbeat time-out"};
  }
  return request;
}

void Coordinator::answer(const std::string& address, const JoinRequest& request,
                         tl::expected<Welcome, Refusal> decision, Time now,
                         CoordinatorActions& actions) {
  if (decision && request.rank_taken) decision = tl::unexpected(*request.rank_taken);
  if (!decision) {
    actions.emplace_back(RefuseClient{address, decision.error()});
    return;
  }
  decision->node_id = options_.node_id;
  decision->heartbeat_ms = static_cast<std::uint32_t>(options_.heartbeat.count());
  decision->heartbeat_timeout_ms = static_cast<std::uint32_t>(options_.heartbeat_timeout.count());
  if (request.hello.rank == kNoRank) {
    decision->session = 0;
    actions.emplace_back(WelcomeClient{address, kNoRank, *std::move(decision)});
  } else {
    let_in(address, request, *std::move(decision), now, actions);
  }
}

void Coordinator::let_in(const std::string& address, const JoinRequest& request, Welcome welcome,
                         Time now, CoordinatorActions& actions) {
  const Hello& hello = request.hello;
  const auto held = holders_.rank_of(address);
  if (held && *held != hello.rank) leave(*held, false, actions);
  // Silent clients speak of the job from before another client came.
  if (!request.same_client) silent_.clear();
  std::erase_if(silent_, [&](const auto& silent) { return silent.second == hello.rank; });
  welcome.session = holders_.join(address, hello, now);
  std::optional<Position> received;
  if (hello.has_position) received = hello.position;
  actions.emplace_back(
      ClientEvent(ClientJoined{hello.rank, request.same_client, received, welcome.session}));
  actions.emplace_back(WelcomeClient{address, hello.rank, std::move(welcome)});
}

void Coordinator::receive(const std::string& address, const Message& message, Time now,
                          CoordinatorActions& actions) {
  const auto rank = holders_.heard(address, now);
  if (!rank) return receive_late(address, message, actions);
  if (std::holds_alternative<Leave>(message)) return leave(*rank, true, actions);
  if (auto event = event_of(*rank, holders_.session_of(*rank), message)) {
    actions.emplace_back(*std::move(event));
  }
}

void Coordinator::receive_late(const std::string& address, const Message& message,
                               CoordinatorActions& actions) {
  const auto silent = silent_.find(address);
  if (silent == silent_.end()) return;
  actions.emplace_back(ClientEvent(ClientHeard{silent->second}));
  if (const auto* done = std::get_if<Acknowledgement>(&message)) {
    actions.emplace_back(ClientEvent(Acknowledged{silent->second, done->position}));
  } else if (std::holds_alternative<Leave>(message)) {
    actions.emplace_back(ClientEvent(ClientLeft{silent->second, true}));
    silent_.erase(silent);
  }
}

void Coordinator::close(const std::string& address, CoordinatorActions& actions) {
  silent_.erase(address);
  if (const auto rank = holders_.rank_of(address)) leave(*rank, false, actions);
}

void Coordinator::tick(Time now, CoordinatorActions& actions) {
  for (const auto& [rank, address] : holders_.all()) {
    if (holders_.is_silent(rank, now, options_.heartbeat_timeout)) {
      lose_silent(rank, address, actions);
    } else {
      actions.emplace_back(SendToClient{address, Heartbeat{}});
    }
  }
}

void Coordinator::lose_silent(std::int32_t rank, const std::string& address,
                              CoordinatorActions& actions) {
  const std::string text = options_.rank_name(rank) + " sent no heartbeat for " +
                           in_seconds(options_.heartbeat_timeout) +
                           " and is considered lost; its microbatches are kept until it comes back";
  actions.emplace_back(LogLine{LogLevel::kWarning, text});
  leave(rank, false, actions);
  silent_[address] = rank;
  for (const auto& [other, at] : holders_.all()) {
    actions.emplace_back(SendToClient{at, Notice{text}});
  }
}

void Coordinator::leave(std::int32_t rank, bool finished, CoordinatorActions& actions) {
  holders_.leave(rank);
  actions.emplace_back(ClientEvent(ClientLeft{rank, finished}));
}

const std::string* Coordinator::address_of(std::int32_t rank, std::uint64_t session) const {
  if (session != 0 && session != holders_.session_of(rank)) return nullptr;
  return holders_.address_of(rank);
}

}  // namespace isocost
