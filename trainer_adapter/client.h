#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/log.h"
#include "base/result.h"
#include "base/tensor.h"
#include "transport/messages.h"

namespace isocost {

struct ClientOptions {
  std::string endpoint = "tcp://127.0.0.1:5800";
  std::int32_t rank = 0;  ///< With a layout its receiver: receiver_of (balancer/layout/place.h).
  std::int32_t world_size = 0;  ///< Of ranks or receivers; 0: whatever the node has.
  std::uint64_t layout =
      0;  ///< Fingerprint of the layout, which the node then must serve; 0: not said.
  std::uint32_t prefetch = 2;  ///< Microbatches asked for ahead of the one in use.
  /// Where training begins, the same on all ranks: from a saved state, or {} for the first step.
  /// Empty: the rank goes on where its last client stopped.
  std::optional<StartPoint> start;
  /// What the trainer computes on, as its profile names it; the node warns where its profile is of
  /// another one. Empty: not said.
  std::string hardware;
  std::chrono::milliseconds connect_timeout{30000};
  std::string curve_server_key_file;  ///< The node's public key; empty: no CURVE.
  std::string curve_secret_key_file;  ///< This client's; empty: a fresh pair.
  std::int64_t max_microbatch_bytes = std::int64_t{16}
                                      << 30;  ///< A node that announces more is not believed.
  LogSink log;
};

/// One microbatch, assembled: what a trainer computes on. Move-only. Tensors stay valid after it is
/// gone, for as long as somebody holds them.
struct Microbatch {
  MicrobatchHeader header;
  /// The announced tensors, rows of all samples concatenated in header.samples' order, and what
  /// follows from them:
  ///   <module>.cu_seqlens  int32 [sequences + 1]   running sums of <module>.lengths, from 0
  ///   llm.loss_weights     float32 [tokens]        each sample's weight at its tokens, where there
  ///                                                are labels
  std::vector<NamedTensor> tensors;
  std::chrono::nanoseconds waited{0};  ///< How long `next` blocked for it.

  /// Null where this microbatch has no such tensor (no audio in it, say).
  const SharedTensor* find(std::string_view name) const;
};

/// A trainer's end of the wire. One background thread receives and assembles ahead of use, one copy
/// from socket to tensor. `next`, `report` from one thread at a time; `close` from any.
class Client {
 public:
  /// Joins the node; where clients of a job before this one have not gone yet, waits for that, too.
  /// Errors: kDeadlineExceeded naming the endpoint, and what it waited for; what the node refuses
  /// with (kInvalidArgument: rank out of range, world size or start unlike the other ranks', a
  /// start in other data; kAlreadyExists: rank taken; kUnsupported: protocol version);
  /// kCancelled where `stop` ended the wait.
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options,
                                                 const std::stop_token& stop = {});
  /// Leaves without acknowledging the microbatch in use: the next client of this rank gets it
  /// again.
  virtual ~Client() = default;

  virtual const Welcome& welcome() const = 0;

  /// The next microbatch of this rank; nothing at the end of an epoch (then `epoch_end` tells about
  /// it, and the next call goes on with the next epoch, or again gives nothing after the last).
  /// Acknowledges the one before. Reconnects by itself where the connection drops; microbatches
  /// come exactly once all the same. Errors: kCancelled; kUnavailable where the node is silent
  /// beyond the time-out or was restarted; what the node failed with.
  virtual Result<std::optional<Microbatch>> next(const std::stop_token& stop) = 0;
  /// Waits until `next` would not block, at most so long; whether that came about. Acknowledges the
  /// microbatch in use, as `next` does. For callers that have to look after other things meanwhile.
  virtual bool wait(std::chrono::milliseconds limit) = 0;
  virtual const std::optional<EpochEnd>& epoch_end() const = 0;

  /// Sends measured seconds back, and with them how long `next` and `wait` blocked since the last
  /// report. Errors: kInvalidArgument for seconds that are neither -1 (not measured)
  /// nor 0 nor between kLeastModuleSeconds and kMostModuleSeconds, or forward_s beyond their sum.
  virtual Status report(const Report& report) = 0;

  /// Sends the model's profile, measured anew (JSON, see docs/model_profile.md): for a microbatch
  /// whose header says profile_wanted, before it is trained on. The node plans by it from a later
  /// step on; one that it cannot read it names in its log, and keeps the old one. Errors:
  /// kInvalidArgument for more than kMaxProfileBytes.
  virtual Status send_profile(const std::string& profile) = 0;

  /// Acknowledges the microbatch in use, says goodbye and joins the thread; idempotent. Takes at
  /// most a second.
  virtual void close() = 0;

  /// Bytes copied from socket buffers into tensors so far: tests hold it against the bytes
  /// delivered.
  virtual std::int64_t bytes_copied() const = 0;
  virtual const BufferPool& pool() const = 0;
};

}  // namespace isocost
