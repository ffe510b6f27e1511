#include "trainer_adapter/internal/client_session.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/range.h"

namespace isocost {
namespace {

// Time between hellos while clients of the node's previous job are leaving.
constexpr std::chrono::milliseconds kHelloInterval{500};
// Time after which the log says why no node was reached. Trainer and node start together.
constexpr std::chrono::seconds kTellAfter{2};
// The log says that the node is silent after so many missed heartbeats, at least this time, and
// again whenever the other time has passed.
constexpr int kMissedHeartbeats = 3;
constexpr std::chrono::milliseconds kTellSilenceAfter{2000};
constexpr std::chrono::seconds kTellAgainAfter{10};

std::array<std::uint8_t, 16> random_client_id() {
  std::random_device device;
  std::array<std::uint8_t, 16> id{};
  for (std::uint8_t& byte : id) byte = static_cast<std::uint8_t>(device());
  return id;
}

// Returns a time like "2 s" or "0.5 s".
std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", std::chrono::duration<double>(time).count());
  return text.data();
}

}  // namespace

ClientSession::ClientSession(const ClientOptions& options, Connection& connection,
                             HandOut& hand_out, ReassemblyQueue& reassembly)
    : options_(options),
      connection_(connection),
      hand_out_(hand_out),
      reassembly_(reassembly),
      client_id_(random_client_id()) {}

Result<Welcome> ClientSession::join(const std::stop_token& stop) {
  ConnectionHandlers handlers;
  handlers.hello = [this] { return hello(); };
  handlers.on_message = [this](Message message,
                               std::span<const std::span<const std::byte>> frames) {
    on_message(std::move(message), frames);
  };
  handlers.on_error = [this](const Error& error) { fail(error); };
  handlers.on_tick = [this](std::chrono::nanoseconds silence) { on_tick(silence); };
  handlers.descriptor = [this] { return blocks_.descriptor(); };
  handlers.on_readable = [this] { receive_blocks(); };
  ISOCOST_TRY(connection_.start(std::move(handlers)));
  const MutexLock lock(mutex_);
  answered_.wait_for(mutex_, stop, options_.connect_timeout,
                     [this]() ISOCOST_REQUIRES(mutex_) { return answer_.has_value(); });
  if (answer_) return *answer_;
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "connecting was stopped");
  if (!retry_reason_.empty()) return Error(ErrorCode::kDeadlineExceeded, retry_reason_);
  const std::string why = connection_.why_unreached();
  return Error(ErrorCode::kDeadlineExceeded,
               "no answer from " + options_.endpoint + " within " +
                   seconds_text(options_.connect_timeout) + ": " +
                   (why.empty() ? "is the node up, and the endpoint right?" : why));
}

void ClientSession::leave(bool acknowledge_last) {
  std::call_once(left_, [&] {
    hand_out_.close(acknowledge_last);
    connection_.send(Leave{});
  });
  connection_.stop();
}

Hello ClientSession::hello() {
  hand_out_.end_session();  // the node ignores credit until it has answered
  Hello hello;
  hello.rank = options_.rank;
  hello.world_size = options_.world_size;
  hello.client_id = client_id_;
  const std::optional<Position> received = reassembly_.received();
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

void ClientSession::on_message(Message message,
                               std::span<const std::span<const std::byte>> frames) {
  const Status taken = take(std::move(message), frames);
  if (!taken) fail(taken.error());
}

// Passes a message on. Returns the error that the client fails with.
Status ClientSession::take(Message message, std::span<const std::span<const std::byte>> frames) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    on_welcome(*welcome);
  } else if (auto* header = std::get_if<MicrobatchHeader>(&message)) {
    return reassembly_.add(std::move(*header));
  } else if (const auto* fragment = std::get_if<FragmentHeader>(&message)) {
    return reassembly_.add(*fragment, frames);
  } else if (const auto* end = std::get_if<EpochEnd>(&message)) {
    return reassembly_.add(*end);
  } else if (const auto* refusal = std::get_if<Refusal>(&message)) {
    on_refusal(*refusal);
  } else if (const auto* failure = std::get_if<Failure>(&message)) {
    on_failure(*failure);
  } else if (const auto* notice = std::get_if<Notice>(&message)) {
    log(options_.log, LogLevel::kWarning, "the node: " + notice->text);
  }
  return {};
}

void ClientSession::on_welcome(const Welcome& welcome) {
  attach(welcome);  // attached before credit is granted, so that blocks serve all of the credit
  if (welcome_ && welcome.node_id != welcome_->node_id) {
    fail(Error(ErrorCode::kUnavailable,
               options_.endpoint +
                   " is another node process than before: it was restarted and starts from "
                   "its beginning; restart training from a checkpoint"));
    return;
  }
  if (std::exchange(silent_, false)) hand_out_.recover();
  hand_out_.begin_session(welcome.session);
  connection_.set_heartbeat(std::chrono::milliseconds(welcome.heartbeat_ms));
  if (welcome_) return;
  welcome_ = welcome;
  set_answer(welcome);
}

void ClientSession::attach(const Welcome& welcome) {
  reassembly_.restart();
  const auto why_not =
      blocks_.attach(welcome.shared_memory, std::chrono::milliseconds(welcome.heartbeat_ms));
  if (!why_not) return;
  log(options_.log, LogLevel::kInfo,
      "microbatches come over the socket and not in shared memory: " + *why_not);
}

void ClientSession::on_refusal(const Refusal& refusal) {
  if (welcome_ || refusal.code != ErrorCode::kUnavailable) {
    fail(Error(refusal.code, "the node refused: " + refusal.message));
    return;
  }
  {
    const MutexLock lock(mutex_);
    retry_reason_ = refusal.message;
  }
  // Hello is sent again after two heartbeats without a welcome.
  connection_.set_heartbeat(kHelloInterval / 2);
}

void ClientSession::on_failure(const Failure& failure) {
  const bool draining = failure.code == ErrorCode::kDraining;
  std::optional<Position> resume_point;
  if (failure.has_resume_point) resume_point = failure.resume_point;
  fail(Error(failure.code, (draining ? "the node stops: " : "the node failed: ") + failure.message),
       resume_point);
}

// Receives blocks, at most as many as the node has credit for, so that a flood does not keep this
// thread from other work.
void ClientSession::receive_blocks() {
  for (std::uint32_t i = 0; i < hand_out_.prefetch(); ++i) {
    auto received = blocks_.receive();
    if (!received) return fail(received.error());
    auto block = *std::move(received);
    if (!block) return;
    const Status taken = reassembly_.add(*std::move(block));
    if (!taken) return fail(taken.error());
  }
}

void ClientSession::on_tick(std::chrono::nanoseconds silence) {
  receive_blocks();
  if (const auto why_not = reassembly_.take_pin_failure()) {
    log(options_.log, LogLevel::kInfo,
        "shared memory is not registered with CUDA, so copies to a device need staging: " +
            *why_not);
  }
  if (blocks_.needs_session()) connection_.join_again();
  check_silence(silence);
  tell_why_unreached();
}

// Logs once, while `join` waits, what may be wrong.
void ClientSession::tell_why_unreached() {
  if (welcome_ || told_why_unreached_) return;
  if (std::chrono::steady_clock::now() - began_ < kTellAfter) return;
  const std::string why = connection_.why_unreached();
  if (why.empty()) return;
  told_why_unreached_ = true;
  log(options_.log, LogLevel::kWarning,
      why + (why.ends_with('?') ? " " : ". ") + "Trying for " +
          seconds_text(options_.connect_timeout) + " in all");
}

void ClientSession::check_silence(std::chrono::nanoseconds silence) {
  if (!welcome_ || hand_out_.is_over()) return;
  const std::chrono::milliseconds limit(welcome_->heartbeat_timeout_ms);
  if (silence <= limit) return tell_of_silence(silence, limit);
  silent_ = true;
  fail(Error(ErrorCode::kUnavailable, options_.endpoint + " has sent nothing for " +
                                          in_seconds(limit) + ": the node or its network is down"));
}

// Logs that the node is silent, soon and then regularly, and that it is not any more.
void ClientSession::tell_of_silence(std::chrono::nanoseconds silence,
                                    std::chrono::milliseconds limit) {
  if (!welcome_) return;
  const std::chrono::milliseconds missed(kMissedHeartbeats * welcome_->heartbeat_ms);
  if (silence < std::max(missed, kTellSilenceAfter)) {
    if (std::exchange(told_silence_, {}).count() > 0) {
      log(options_.log, LogLevel::kInfo, options_.endpoint + " sends again");
    }
    return;
  }
  if (told_silence_.count() > 0 && silence < told_silence_ + kTellAgainAfter) return;
  told_silence_ = silence;
  const std::string why = connection_.why_unreached();
  log(options_.log, LogLevel::kWarning,
      options_.endpoint + " has sent nothing for " +
          in_seconds(std::chrono::round<std::chrono::seconds>(silence)) + ": waiting for " +
          in_seconds(limit) + " in all" + (why.empty() ? "" : ". " + why));
}

// Ends a `join` that still waits and what the trainer waits for. The first error counts.
void ClientSession::fail(const Error& error, const std::optional<Position>& resume_point) {
  set_answer(error);
  hand_out_.fail(error, resume_point);
}

// Ends `join`. The first answer counts.
void ClientSession::set_answer(Result<Welcome> answer) {
  const MutexLock lock(mutex_);
  if (!answer_) answer_ = std::move(answer);
  answered_.notify_all();
}

}  // namespace isocost
