#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/internal/block_sessions.h"
#include "trainer_adapter/internal/hand_out.h"
#include "trainer_adapter/internal/reassembly_queue.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"
#include "transport/zmq/connection.h"

namespace isocost {

/// A client's membership in a job: says hello, again after each reconnect, until the node welcomes
/// or refuses it, passes on what the node sends, notices that the node is silent or was restarted,
/// and leaves. `join` and `leave` are thread-safe; the rest runs on the connection's thread.
class ClientSession {
 public:
  /// Only the session starts and stops `connection`.
  ClientSession(const ClientOptions& options, Connection& connection, HandOut& hand_out,
                ReassemblyQueue& reassembly);
  /// Leaves without acknowledging the microbatch in use.
  ~ClientSession() { leave(false); }
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  /// Starts the connection, and blocks until the node has answered. Call it once. Errors: those of
  /// Client::connect.
  Result<Welcome> join(const std::stop_token& stop);
  /// Closes the hand-out, tells the node that this client leaves, and joins the connection's
  /// thread. Idempotent.
  void leave(bool acknowledge_last);

 private:
  Hello hello();
  void on_message(Message message, std::span<const std::span<const std::byte>> frames);
  Status take(Message message, std::span<const std::span<const std::byte>> frames);
  void on_welcome(const Welcome& welcome);
  void attach(const Welcome& welcome);
  void on_refusal(const Refusal& refusal);
  void on_failure(const Failure& failure);
  void receive_blocks();
  void on_tick(std::chrono::nanoseconds silence);
  void check_silence(std::chrono::nanoseconds silence);
  void tell_of_silence(std::chrono::nanoseconds silence, std::chrono::milliseconds limit);
  void tell_why_unreached();
  void fail(const Error& error, const std::optional<Position>& resume_point = {});
  void set_answer(Result<Welcome> answer) ISOCOST_EXCLUDES(mutex_);

  const ClientOptions& options_;
  Connection& connection_;
  HandOut& hand_out_;
  ReassemblyQueue& reassembly_;
  const std::array<std::uint8_t, 16> client_id_;
  std::once_flag left_;

  // Used by the connection's thread only.
  std::optional<Welcome> welcome_;  // the first one
  bool silent_ = false;             // whether the hand-out failed because the node is silent
  std::chrono::nanoseconds told_silence_{0};  // the silence that was logged last; 0: none
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool told_why_unreached_ = false;
  BlockSessions blocks_;

  Mutex mutex_;
  ConditionVariable answered_;
  // The result of `join`; empty while it waits.
  std::optional<Result<Welcome>> answer_ ISOCOST_GUARDED_BY(mutex_);
  // The reason for which the node last asked to try again.
  std::string retry_reason_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
