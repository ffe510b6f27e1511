#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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
#include "transport/wire/messages.h"

namespace isocost {

/// Writes a warning or an error to standard error, as a line. Thread-safe.
void print_warnings(LogLevel level, std::string_view text);

struct ClientOptions {
  std::string endpoint = "tcp://127.0.0.1:5800";
  /// Data-parallel rank; with a layout, the number of the receiver (docs/layout.md). kNoRank: the
  /// client takes no place in a job, and only `welcome` says anything.
  std::int32_t rank = 0;
  std::int32_t world_size = 0;  ///< Number of ranks or receivers; 0 accepts the node's.
  /// Fingerprint of the layout, which the node must then serve; 0: unknown.
  std::uint64_t layout = 0;
  std::uint32_t prefetch = 2;  ///< Microbatches to receive ahead of the one in use.
  /// Whether the caller takes microbatches ahead of the training loop, to prepare them, and calls
  /// `use`, `acknowledge` and `trained` to say where the loop is. `next` and `wait` then neither
  /// acknowledge nor count the time that they block, and a report says nothing of what is trained.
  /// A microbatch that was prepared and never trained on is delivered again.
  bool prepares_ahead = false;
  /// Start of training, the same on all ranks: a saved state, or {} for the first step. Empty:
  /// the rank continues where its last client stopped, and a new run, which finds no other rank
  /// connected, at the first microbatch of the step inside which the last run ended.
  std::optional<StartPoint> start = {};
  /// Whether `start` may be of other data than the node's: another data set, seed, batch size or
  /// tail. Otherwise the node compares its cursor.
  bool accept_other_data = false;
  /// The device that the trainer computes on, as a model profile names it. The node warns if its
  /// model profile is of another device. Empty: unknown.
  std::string hardware = {};
  std::chrono::milliseconds connect_timeout{30000};
  /// Receives messages, of the node, too, such as why no data comes. Called on the client's thread,
  /// without a lock. Empty: none.
  LogSink log = print_warnings;
  std::string curve_server_key_file = {};  ///< The node's public key; empty: no CURVE.
  std::string curve_secret_key_file = {};  ///< This client's key pair; empty: a fresh one.
  /// Limit of a microbatch's size. A node that announces a larger one is an error of `next`
  /// (kResourceExhausted).
  std::int64_t max_microbatch_bytes = std::int64_t{16} << 30;
};

/// One microbatch, assembled: the input of a trainer's forward pass. Copies share their tensors,
/// and tensors, which stay valid after it is gone, their bytes. Memory that the node shares counts
/// in the node's budget until the last tensor in it is dropped: while a trainer keeps many, further
/// microbatches are copied.
struct Microbatch {
  MicrobatchHeader header;
  /// The announced tensors, with the rows of all samples concatenated in the order of
  /// header.samples, and the tensors that assembly computes from them (TensorSource::kAssembly):
  /// the running sums [sequences + 1] of each module's lengths and, if there are labels, each
  /// sample's weight at each of its tokens.
  std::vector<NamedTensor> tensors;
  std::chrono::nanoseconds waited{0};  ///< Time that `next` blocked for it.
  /// Registers the block of shared memory that the announced tensors lie in with this process's
  /// CUDA runtime, if it has loaded one, so that copies from them to a device need no staging and
  /// do not block: the caller keeps the tensors until such a copy is done. Each block is registered
  /// once, for some milliseconds. Returns false if there is no runtime, or it refuses.
  /// Thread-safe. Empty for tensors in memory that only this process has.
  std::function<bool()> pin;

  /// Returns the tensor of this name: an argument name of docs/cpp.md ("input_ids",
  /// "vision_patches") or its name on the wire ("llm.input_ids"). Throws isocost::Exception
  /// (kInvalidArgument), with the names that are there, if this microbatch has none.
  SharedTensor operator[](std::string_view name) const;
  /// Returns the tensor; nothing if this microbatch has none of this name, for example no audio.
  /// Throws isocost::Exception (kInvalidArgument) for a name that no tensor has.
  std::optional<SharedTensor> find(std::string_view name) const;
  /// Returns whether this microbatch has the tensor. Throws as `find` does.
  bool contains(std::string_view name) const { return find(name).has_value(); }
};

/// A trainer's connection to its node. A background thread receives and assembles microbatches
/// ahead of use: without a copy where a node on this host passes them in shared memory, with one
/// from socket to tensor otherwise. `close` is thread-safe; the other functions
/// may be called from one thread at a time, which `next` checks. If microbatches are prepared
/// ahead, `next`, `wait` and `epoch_end` may be called from one thread and the others from another
/// one.
class Client {
 public:
  /// Joins the node. Blocks until the node has accepted this client, which may have to wait until
  /// clients of a previous job have gone. Errors: kDeadlineExceeded with the endpoint and the
  /// reason; the node's refusal (kInvalidArgument: rank out of range, another world size or start
  /// than the other ranks', a start in other data; kAlreadyExists: rank taken; kUnsupported:
  /// protocol version); kCancelled if `stop` ended the wait.
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options,
                                                 const std::stop_token& stop = {});
  /// Leaves without acknowledging anything more: the next client of this rank receives it again.
  virtual ~Client() = default;

  virtual const Welcome& welcome() const = 0;

  /// Acknowledges what is trained (`trained`) and returns the next microbatch of this rank. Returns
  /// nothing at the end of an epoch: `epoch_end` then describes it, and the next call continues
  /// with the next epoch or, after the last one, returns nothing again. Blocks until one of them
  /// has arrived, and returns kCancelled, even if one has, once `stop` was requested. Reconnects
  /// when the connection drops; every microbatch is still returned exactly once. Errors:
  /// kCancelled; kUnavailable if the node sent nothing for the heartbeat time-out or was restarted;
  /// kDraining if the node was asked to stop, after all that it has delivered: this is no end of an
  /// epoch, and `resume_point` says where training resumes; kInvalidArgument while another thread
  /// is in `next` or `wait`; the node's failure.
  virtual Result<std::optional<Microbatch>> next(const std::stop_token& stop = {}) = 0;
  /// Acknowledges what is trained, and blocks until `next` would not block or `limit` has passed.
  /// Returns whether `next` would not block, which is so while another thread is in `next`. For
  /// callers with other work meanwhile.
  virtual bool wait(std::chrono::milliseconds limit) = 0;

  /// Records that this microbatch and all before it are trained, as `report` does. The node learns
  /// it once the loop continues. If the loop says it of none, or has not said it for eight steps,
  /// a microbatch counts as trained for the node when the loop asks for the next one; a saved state
  /// never rests on that. Errors: kInvalidArgument for a microbatch that
  /// `next` has not returned.
  virtual Status trained(const Position& position) = 0;
  /// Records that this microbatch is not trained, although it was reported last or is in use: an
  /// exception left its body. It is acknowledged with a later one that is trained, and else comes
  /// again to the rank's next client.
  virtual void revoke(const Position& position) = 0;

  /// Begins the microbatch at this position, for which the loop was blocked for `waited`, and
  /// acknowledges what is trained. Only callers that prepare microbatches ahead
  /// (ClientOptions::prepares_ahead) call it.
  virtual void use(const Position& position, std::chrono::nanoseconds waited) = 0;
  /// Acknowledges what is trained, because the loop asks for another one. The same callers call it.
  virtual void acknowledge() = 0;

  /// Returns the last end of epoch that `next` reached, if any.
  virtual const std::optional<EpochEnd>& epoch_end() const = 0;

  /// Returns, after an error of code kDraining, the first microbatch of the first step that no rank
  /// receives any more, where training resumes; otherwise nothing. Thread-safe.
  virtual std::optional<Position> resume_point() const = 0;

  /// Sends measured seconds to the node, with the time that the loop was blocked for data since the
  /// last report as data_wait_s. The microbatch and all before it are then trained. In a step that
  /// the node does not ask to be measured (MicrobatchHeader::seconds_wanted), the seconds may be
  /// kNotMeasured and are not sent: its last microbatch's report sends data_wait_s alone. Errors:
  /// kInvalidArgument for seconds that are neither kNotMeasured nor 0 nor between 1 ns and a day,
  /// for a forward_s beyond their sum, for a microbatch that `next` has not returned yet, and for
  /// one whose work was not measured, or whose seconds are all 0; kCancelled after `close`.
  virtual Status report(const Report& report) = 0;

  /// Answers a microbatch with profile_wanted(), before training on it, within its
  /// profile_budget_s: with a new model profile from rank 0 or, in a layout with several stages,
  /// with a layer profile from every receiver, or with the reason why there is none
  /// (docs/model_profile.md). The node plans with it from a later step on. If it cannot, it logs
  /// why, and keeps the present profile. Errors: kInvalidArgument for more than kMaxProfileBytes;
  /// kCancelled after `close`.
  virtual Status send_profile(const ProfileUpdate& update) = 0;

  /// Acknowledges what is trained, tells the node that this client leaves, and joins the thread.
  /// Blocks for up to a second. Idempotent.
  virtual void close() = 0;
  /// Does what `close` does, but acknowledges nothing: the rank's next client receives it again.
  virtual void leave() = 0;

  /// Returns the bytes copied from socket buffers into tensors so far; bytes in shared memory are
  /// not copied. Tests compare them with the bytes delivered.
  virtual std::int64_t bytes_copied() const = 0;
  /// Returns the bytes of memory that tensors of this client hold, shared memory included.
  /// Thread-safe.
  virtual std::int64_t bytes_in_use() const = 0;
  /// Returns the pool of tensors that were copied or computed here.
  virtual const BufferPool& pool() const = 0;
};

}  // namespace isocost
