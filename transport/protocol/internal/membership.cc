#include "transport/protocol/internal/membership.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/range.h"

namespace isocost {
namespace {

// Time between hellos while clients of the node's previous job are leaving.
constexpr std::chrono::milliseconds kHelloInterval{500};
// Hello is sent again after so many heartbeats without a message.
constexpr int kHeartbeatsToHello = 2;
// Time after which the log says why no node was reached. Trainer and node start together.
constexpr std::chrono::seconds kTellAfter{2};
// The log says that the node is silent after so many missed heartbeats, at least this time, and
// again whenever the other time has passed.
constexpr int kMissedHeartbeats = 3;
constexpr std::chrono::milliseconds kTellSilenceAfter{2000};
constexpr std::chrono::seconds kTellAgainAfter{10};

// Returns a time like "2 s" or "0.5 s".
std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", std::chrono::duration<double>(time).count());
  return text.data();
}

}  // namespace

Hello Membership::hello(Time now, const std::optional<Position>& received) {
  hello_at_ = now;
  Hello hello;
  hello.rank = options_.rank;
  hello.world_size = options_.world_size;
  hello.client_id = options_.client_id;
  hello.has_position = received.has_value();
  if (received) hello.position = *received;
  if (welcome_) hello.job = welcome_->job;
  hello.has_start = options_.start.has_value();
  if (options_.start) hello.start = *options_.start;
  if (options_.accept_other_data) hello.start.cursor = 0;
  hello.hardware = options_.hardware;
  hello.layout = options_.layout;
  return hello;
}

bool Membership::needs_hello(Time now, std::chrono::nanoseconds silence) {
  if (!hello_at_) return false;  // the connection has not come up yet
  if (std::min(silence, now - *hello_at_) <= kHeartbeatsToHello * heartbeat_) return false;
  hello_at_ = now;
  return true;
}

Status Membership::check_process(const Welcome& welcome) const {
  if (!welcome_ || welcome.node_id == welcome_->node_id) return {};
  return Error(ErrorCode::kUnavailable,
               options_.endpoint +
                   " is another node process than before: it was restarted and starts from "
                   "its beginning; restart training from a checkpoint");
}

void Membership::take(const Welcome& welcome, RankActions& actions) {
  set_heartbeat(std::chrono::milliseconds(welcome.heartbeat_ms), actions);
  if (welcome_) return;
  welcome_ = welcome;
  if (!std::exchange(answered_, true)) actions.emplace_back(Answer{welcome});
}

Status Membership::take(const Refusal& refusal, RankActions& actions) {
  if (welcome_ || refusal.code != ErrorCode::kUnavailable) {
    return Error(refusal.code, "the node refused: " + refusal.message);
  }
  retry_reason_ = refusal.message;
  // Hello is sent again after two heartbeats without a welcome.
  set_heartbeat(kHelloInterval / kHeartbeatsToHello, actions);
  return {};
}

void Membership::set_heartbeat(std::chrono::milliseconds interval, RankActions& actions) {
  heartbeat_ = interval;
  actions.emplace_back(SetHeartbeat{interval});
}

void Membership::answer(const Error& error, RankActions& actions) {
  if (!std::exchange(answered_, true)) actions.emplace_back(Answer{error});
}

Error Membership::unanswered(const std::string& why_unreached) const {
  if (!retry_reason_.empty()) return {ErrorCode::kDeadlineExceeded, retry_reason_};
  return {ErrorCode::kDeadlineExceeded,
          "no answer from " + options_.endpoint + " within " +
              seconds_text(options_.connect_timeout) + ": " +
              (why_unreached.empty() ? "is the node up, and the endpoint right?" : why_unreached)};
}

Status Membership::check_silence(std::chrono::nanoseconds silence, RankActions& actions) {
  if (!welcome_) return {};
  const std::chrono::milliseconds limit(welcome_->heartbeat_timeout_ms);
  if (silence <= limit) {
    explain_silence(silence, std::chrono::milliseconds(welcome_->heartbeat_ms), actions);
    return {};
  }
  silent_ = true;
  return Error(ErrorCode::kUnavailable, options_.endpoint + " has sent nothing for " +
                                            in_seconds(limit) +
                                            ": the node or its network is down");
}

bool Membership::take_silence() { return std::exchange(silent_, false); }

// Has it logged that the node is silent, soon and then regularly, and that it is not any more.
void Membership::explain_silence(std::chrono::nanoseconds silence,
                                 std::chrono::milliseconds heartbeat, RankActions& actions) {
  if (silence < std::max(kMissedHeartbeats * heartbeat, kTellSilenceAfter)) {
    if (std::exchange(told_silence_, {}).count() > 0) {
      actions.emplace_back(LogLine{LogLevel::kInfo, options_.endpoint + " sends again"});
    }
    return;
  }
  if (told_silence_.count() > 0 && silence < told_silence_ + kTellAgainAfter) return;
  told_silence_ = silence;
  actions.emplace_back(ExplainUnreached{});
}

void Membership::check_unreached(Time now, RankActions& actions) {
  if (welcome_ || told_why_unreached_ || now - began_ < kTellAfter) return;
  actions.emplace_back(ExplainUnreached{});
}

void Membership::explain(const std::string& why, RankActions& actions) {
  if (welcome_) {
    const std::chrono::milliseconds limit(welcome_->heartbeat_timeout_ms);
    const auto silence = in_seconds(std::chrono::round<std::chrono::seconds>(told_silence_));
    actions.emplace_back(LogLine{LogLevel::kWarning, options_.endpoint + " has sent nothing for " +
                                                         silence + ": waiting for " +
                                                         in_seconds(limit) + " in all" +
                                                         (why.empty() ? "" : ". " + why)});
    return;
  }
  if (why.empty()) return;
  told_why_unreached_ = true;  // once, while the rank waits for its first welcome
  actions.emplace_back(
      LogLine{LogLevel::kWarning, why + (why.ends_with('?') ? " " : ". ") + "Trying for " +
                                      seconds_text(options_.connect_timeout) + " in all"});
}

}  // namespace isocost
