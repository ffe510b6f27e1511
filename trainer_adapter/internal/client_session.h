#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "base/mutex.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/internal/assembler.h"
#include "trainer_adapter/internal/hand_out.h"
#include "transport/protocol/rank_actions.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"
#include "transport/zmq/connection.h"

namespace isocost {

/// A client's membership in a job: runs the connection, tells the rank's machine what comes of the
/// node, and performs what the machine asks for. `join` and `leave` are thread-safe; the rest runs
/// on the connection's thread.
class ClientSession {
 public:
  /// Only the session starts and stops `connection`. `hand_out` has the machine.
  ClientSession(const ClientOptions& options, Connection& connection, HandOut& hand_out,
                Assembler& assembler);
  /// Leaves without acknowledging the microbatch in use.
  ~ClientSession() { leave(false); }
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  /// Starts the connection, and blocks until the node has answered. Call it once. Errors: those of
  /// Client::connect.
  Result<Welcome> join(const std::stop_token& stop);
  /// Closes the hand-out, which tells the node that this client leaves, and joins the connection's
  /// thread. Idempotent.
  void leave(bool acknowledge_last);

 private:
  using Assembled = Result<std::optional<Assembler::Assembled>>;

  Hello hello();
  void on_message(Message message, std::span<const std::span<const std::byte>> frames);
  void receive_blocks();
  void take(BlockReceiver::Delivered block);
  void complete(Assembled&& assembled);
  void on_tick(std::chrono::nanoseconds silence);
  void fail(const Error& error);
  template <typename Event>
  void apply(Event event);
  void perform(const RankActions& actions);
  void perform(const RankAction& action);
  void attach(const SharedMemoryOffer& offer);
  void set_answer(Result<Welcome> answer) ISOCOST_EXCLUDES(mutex_);

  const ClientOptions& options_;
  Connection& connection_;
  HandOut& hand_out_;
  Assembler& assembler_;

  // Used by the connection's thread only.
  std::unique_ptr<BlockReceiver> blocks_;  // null: the node shares no memory with this process

  Mutex mutex_;
  ConditionVariable answered_;
  // The result of `join`; empty while it waits.
  std::optional<Result<Welcome>> answer_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
