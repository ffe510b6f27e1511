#include "trainer_adapter/client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include "base/mutex.h"
#include "base/range.h"
#include "base/units.h"
#include "trainer_adapter/internal/assembly.h"
#include "trainer_adapter/internal/block_sessions.h"
#include "trainer_adapter/internal/pin_failures.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/zmq/connection.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

// Time between hellos while clients of the node's previous job are leaving.
constexpr std::chrono::milliseconds kHelloInterval{500};

std::array<std::uint8_t, 16> random_client_id() {
  std::random_device device;
  std::array<std::uint8_t, 16> id{};
  for (std::uint8_t& byte : id) byte = static_cast<std::uint8_t>(device());
  return id;
}

// Returns the options of the connection. No frame of an announced microbatch is larger than all of
// it.
ConnectionOptions connection_options(const ClientOptions& options) {
  return {.endpoint = options.endpoint,
          .curve_server_key_file = options.curve_server_key_file,
          .curve_secret_key_file = options.curve_secret_key_file,
          .max_frame_bytes = std::max(options.max_microbatch_bytes, kMaxMessageBytes)};
}

// Returns a time like "2 s" or "0.5 s".
std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", std::chrono::duration<double>(time).count());
  return text.data();
}

// States: joining (no welcome yet) -> running -> done (the last epoch's end was received) or
// failed. The connection's thread changes the state; the trainer's thread waits for ready_.
class ClientImpl final : public Client {
 public:
  explicit ClientImpl(const ClientOptions& options) : options_(options), id_(random_client_id()) {}
  ~ClientImpl() override { leave(false); }

  Status join(const std::stop_token& stop);

  // Returns the welcome, which is written once, before `connect` returns the client.
  const Welcome& welcome() const override ISOCOST_NO_THREAD_SAFETY_ANALYSIS { return welcome_; }
  bool wait(std::chrono::milliseconds limit) override;
  Result<std::optional<Microbatch>> next(const std::stop_token& stop) override;
  void acknowledge() override ISOCOST_EXCLUDES(mutex_);
  void use(const Position& position, std::chrono::nanoseconds waited) override;
  const std::optional<EpochEnd>& epoch_end() const override { return epoch_end_; }
  Status report(const Report& report) override;
  Status send_profile(const std::string& profile) override;
  void close() override { leave(true); }
  std::int64_t bytes_copied() const override { return bytes_copied_; }
  std::int64_t bytes_in_use() const override { return pool_.bytes_in_use() + *shared_in_use_; }
  const BufferPool& pool() const override { return pool_; }

 private:
  using Ready = std::variant<Microbatch, EpochEnd>;

  std::uint32_t prefetch() const {
    return std::clamp<std::uint32_t>(options_.prefetch, 1, kMaxCredit);
  }
  Hello hello();
  void on_message(Message message, std::span<const std::span<const std::byte>> frames);
  void on_refusal(const Refusal& refusal);
  void on_welcome(const Welcome& welcome);
  void attach(const Welcome& welcome);
  void receive_blocks();
  void on_header(MicrobatchHeader header);
  Result<Assembly> begin(MicrobatchHeader header);
  void on_fragment(const FragmentHeader& header,
                   std::span<const std::span<const std::byte>> frames);
  void on_block(BlockReceiver::Delivered microbatch);
  void use_block(Assembly& assembly, const BlockReceiver::Delivered& microbatch);
  std::shared_ptr<const void> count(std::span<const std::byte> block,
                                    std::shared_ptr<const void> owner) const;
  void on_epoch_end(const EpochEnd& end);
  Assembly* find_pending(const Position& position);
  bool is_received(const Position& position) ISOCOST_EXCLUDES(mutex_);
  void on_tick(std::chrono::nanoseconds silence);
  void finish_complete();
  void finish(Assembly& assembly);
  void finish(const EpochEnd& end);
  void fail(Error error) ISOCOST_EXCLUDES(mutex_);
  bool is_ready() const ISOCOST_REQUIRES(mutex_) {
    return left_ || !ready_.empty() || done_ || failure_.has_value();
  }
  void top_up() ISOCOST_REQUIRES(mutex_);
  void return_credit() ISOCOST_REQUIRES(mutex_);
  void end_use() ISOCOST_REQUIRES(mutex_);
  std::optional<Microbatch> hand_out(Clock::time_point asked) ISOCOST_REQUIRES(mutex_);

  void leave(bool acknowledge_last);

  const ClientOptions options_;
  const std::array<std::uint8_t, 16> id_;
  BufferPool pool_{kKeepBytes};

  std::optional<EpochEnd> epoch_end_;  // used by the trainer's thread only

  // Used by the connection's thread only: announced and not ready yet, in order. Fragments of
  // several microbatches may arrive interleaved, and an end of epoch before the last fragment.
  std::deque<std::variant<Assembly, EpochEnd>> pending_;
  // Used by the connection's thread only, too:
  BlockSessions blocks_;
  PinFailures pin_failures_;
  std::map<Position, BlockReceiver::Delivered>
      delivered_;  // microbatches in blocks, before their headers

  mutable Mutex mutex_;
  ConditionVariable changed_;
  Welcome welcome_ ISOCOST_GUARDED_BY(mutex_);
  std::uint64_t session_ ISOCOST_GUARDED_BY(mutex_) = 0;
  bool welcomed_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::string unavailable_ ISOCOST_GUARDED_BY(mutex_);  // why the node asked to retry
  bool awaits_welcome_ ISOCOST_GUARDED_BY(mutex_) =
      true;  // a hello is unanswered, so credit would be ignored
  bool left_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::chrono::nanoseconds data_wait_ ISOCOST_GUARDED_BY(mutex_){
      0};  // blocked time since the last report
  std::optional<Position> in_use_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> acknowledged_ ISOCOST_GUARDED_BY(mutex_);
  bool done_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::deque<Ready> ready_ ISOCOST_GUARDED_BY(mutex_);
  std::uint32_t microbatches_ready_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::uint32_t credit_out_ ISOCOST_GUARDED_BY(mutex_) =
      0;  // granted on this connection and not used yet
  std::optional<Position> received_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<std::uint32_t> last_epoch_end_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);
  bool silent_ ISOCOST_GUARDED_BY(mutex_) = false;  // whether the failure is the node's silence

  std::atomic<std::int64_t> bytes_copied_ = 0;
  // Bytes of blocks; shared with the tensors in them, which may outlive the client.
  const std::shared_ptr<std::atomic<std::int64_t>> shared_in_use_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::unique_ptr<Connection> connection_;
};

Status ClientImpl::join(const std::stop_token& stop) {
  if (options_.start && options_.start->cost_model_state.size() > kMaxCostModelStateBytes) {
    return Error(
        ErrorCode::kInvalidArgument,
        "start.cost_model_state: " + std::to_string(options_.start->cost_model_state.size()) +
            " bytes are more than a node ever sends: the saved state is corrupt");
  }
  ConnectionHandlers handlers;
  handlers.hello = [this] { return hello(); };
  handlers.on_message = [this](Message message,
                               std::span<const std::span<const std::byte>> frames) {
    on_message(std::move(message), frames);
  };
  handlers.on_error = [this](Error error) { fail(std::move(error)); };
  handlers.on_tick = [this](std::chrono::nanoseconds silence) { on_tick(silence); };
  handlers.descriptor = [this] { return blocks_.descriptor(); };
  handlers.on_readable = [this] { receive_blocks(); };
  const MutexLock lock(mutex_);  // callbacks may come before `connection_` is set
  ISOCOST_ASSIGN(connection_, Connection::open(connection_options(options_), std::move(handlers)));
  changed_.wait_for(mutex_, stop, options_.connect_timeout, [this]() ISOCOST_REQUIRES(mutex_) {
    return welcomed_ || failure_.has_value();
  });
  if (failure_) return *failure_;
  if (welcomed_) return {};
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "connecting was stopped");
  if (!unavailable_.empty()) return Error(ErrorCode::kDeadlineExceeded, unavailable_);
  return Error(ErrorCode::kDeadlineExceeded,
               "no answer from " + options_.endpoint + " within " +
                   seconds_text(options_.connect_timeout) +
                   ": is the node up, the endpoint right, and the key (if any) the node's? On "
                   "loopback a node answers clients of its own user, or of all with --insecure");
}

Hello ClientImpl::hello() {
  const MutexLock lock(mutex_);
  awaits_welcome_ = true;
  Hello hello;
  hello.rank = options_.rank;
  hello.world_size = options_.world_size;
  hello.client_id = id_;
  hello.has_position = received_.has_value();
  if (received_) hello.position = *received_;
  hello.job = welcome_.job;
  hello.has_start = options_.start.has_value();
  if (options_.start) hello.start = *options_.start;
  hello.hardware = options_.hardware;
  hello.layout = options_.layout;
  return hello;
}

void ClientImpl::on_message(Message message, std::span<const std::span<const std::byte>> frames) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    attach(*welcome);  // attached before credit is granted, so that blocks serve all of the credit
    on_welcome(*welcome);
  } else if (auto* header = std::get_if<MicrobatchHeader>(&message)) {
    on_header(std::move(*header));
  } else if (const auto* fragment = std::get_if<FragmentHeader>(&message)) {
    on_fragment(*fragment, frames);
  } else if (const auto* end = std::get_if<EpochEnd>(&message)) {
    on_epoch_end(*end);
  } else if (const auto* refusal = std::get_if<Refusal>(&message)) {
    on_refusal(*refusal);
  } else if (const auto* failure = std::get_if<Failure>(&message)) {
    fail(Error(failure->code, "the node failed: " + failure->message));
  } else if (const auto* notice = std::get_if<Notice>(&message)) {
    log(options_.log, LogLevel::kWarning, "the node: " + notice->text);
  }
}

void ClientImpl::on_refusal(const Refusal& refusal) {
  {
    const MutexLock lock(mutex_);
    if (!welcomed_ && refusal.code == ErrorCode::kUnavailable) {
      unavailable_ = refusal.message;
      connection_->set_heartbeat(kHelloInterval /
                                 2);  // hello is sent again after two without a welcome
      return;
    }
  }
  fail(Error(refusal.code, "the node refused: " + refusal.message));
}

void ClientImpl::on_welcome(const Welcome& welcome) {
  const MutexLock lock(mutex_);
  if (welcomed_ && welcome.node_id != welcome_.node_id) {
    if (failure_) return;
    failure_ = Error(ErrorCode::kUnavailable,
                     options_.endpoint +
                         " is another node process than before: it was restarted and starts from "
                         "its beginning; restart training from a checkpoint");
    changed_.notify_all();
    return;
  }
  if (std::exchange(silent_, false)) failure_.reset();  // the node is there again
  if (!welcomed_) welcome_ = welcome;  // written once, since the trainer holds a reference
  welcomed_ = true;
  session_ = welcome.session;
  awaits_welcome_ = false;
  pending_.clear();  // the node sends incomplete microbatches again
  // The node waits for the acknowledgement, and it may have been lost with the last connection.
  if (acknowledged_) connection_->send(Acknowledgement{*acknowledged_});
  credit_out_ = 0;
  top_up();
  connection_->set_heartbeat(std::chrono::milliseconds(welcome.heartbeat_ms));
  changed_.notify_all();
}

void ClientImpl::attach(const Welcome& welcome) {
  delivered_.clear();
  const auto why_not =
      blocks_.attach(welcome.shared_memory, std::chrono::milliseconds(welcome.heartbeat_ms));
  if (!why_not) return;
  log(options_.log, LogLevel::kInfo,
      "microbatches come over the socket and not in shared memory: " + *why_not);
}

// Receives blocks, at most as many as the node has credit for, so that a flood does not keep this
// thread from other work.
void ClientImpl::receive_blocks() {
  for (std::uint32_t i = 0; i < prefetch(); ++i) {
    auto received = blocks_.receive();
    if (!received) {
      fail(std::move(received).error());
      return;
    }
    std::optional<BlockReceiver::Delivered> delivered = *std::move(received);
    if (!delivered) return;
    on_block(*std::move(delivered));
  }
}

void ClientImpl::on_header(MicrobatchHeader header) {
  {
    const MutexLock lock(mutex_);
    if (received_ &&
        header.position <= *received_) {  // received already, and the node spent a credit on it
      return_credit();
      return;
    }
  }
  if (find_pending(header.position) != nullptr) return;
  auto assembly = begin(std::move(header));
  if (!assembly) {
    fail(std::move(assembly).error());
    return;
  }
  pending_.emplace_back(*std::move(assembly));
  if (const auto delivered = delivered_.extract(std::get<Assembly>(pending_.back()).position())) {
    use_block(std::get<Assembly>(pending_.back()), delivered.mapped());
  }
  finish_complete();  // complete at once if all of its tensors are empty
}

Result<Assembly> ClientImpl::begin(MicrobatchHeader header) {
  const auto under_way = std::count_if(pending_.begin(), pending_.end(), [](const auto& pending) {
    return std::holds_alternative<Assembly>(pending);
  });
  if (under_way >= prefetch()) {
    return Error(ErrorCode::kCorrupt,
                 "the node announces more microbatches than it has credit for");
  }
  return Assembly::begin(std::move(header), pool_, options_.max_microbatch_bytes);
}

Assembly* ClientImpl::find_pending(const Position& position) {
  for (auto& pending : pending_) {
    auto* assembly = std::get_if<Assembly>(&pending);
    if (assembly != nullptr && assembly->position() == position) return assembly;
  }
  return nullptr;
}

bool ClientImpl::is_received(const Position& position) {
  const MutexLock lock(mutex_);
  return received_ && position <= *received_;
}

void ClientImpl::on_fragment(const FragmentHeader& header,
                             std::span<const std::span<const std::byte>> frames) {
  Assembly* assembly = find_pending(header.position);
  if (assembly == nullptr) return;  // a fragment of a microbatch from before a reconnect
  const auto copied = assembly->add(header, frames);
  if (!copied) {
    fail(copied.error());
    return;
  }
  bytes_copied_ += *copied;
  finish_complete();
}

// Takes a microbatch in a block. Its header comes over the socket, and may come later.
void ClientImpl::on_block(BlockReceiver::Delivered microbatch) {
  if (Assembly* assembly = find_pending(microbatch.position)) {
    use_block(*assembly, microbatch);
    finish_complete();
    return;
  }
  if (is_received(microbatch.position)) return;
  if (delivered_.size() >= prefetch()) {
    fail(Error(ErrorCode::kCorrupt, "the node delivers more microbatches than it has credit for"));
    return;
  }
  delivered_.insert_or_assign(microbatch.position, std::move(microbatch));
}

void ClientImpl::use_block(Assembly& assembly, const BlockReceiver::Delivered& microbatch) {
  auto used = assembly.use_block(microbatch.bytes, count(microbatch.bytes, microbatch.owner),
                                 microbatch.offsets, pin_failures_.watch(microbatch.pin));
  if (!used) fail(std::move(used).error());
}

// Returns an owner that keeps the block, and counts its bytes as long as it lives.
std::shared_ptr<const void> ClientImpl::count(std::span<const std::byte> block,
                                              std::shared_ptr<const void> owner) const {
  const auto bytes = static_cast<std::int64_t>(block.size());
  *shared_in_use_ += bytes;
  return {block.data(),
          [owner = std::move(owner), counter = shared_in_use_, bytes](const void*) mutable {
            owner = nullptr;
            *counter -= bytes;
          }};
}

void ClientImpl::on_epoch_end(const EpochEnd& end) {
  // At most `prefetch` microbatches are pending, with few ends of epoch between them.
  if (pending_.size() > 2 * std::size_t{prefetch()}) {
    fail(Error(ErrorCode::kCorrupt, "the node announces too many ends of epochs"));
    return;
  }
  pending_.emplace_back(end);
  finish_complete();
}

void ClientImpl::finish_complete() {
  while (!pending_.empty()) {
    if (auto* assembly = std::get_if<Assembly>(&pending_.front())) {
      if (!assembly->complete()) return;
      finish(*assembly);
    } else {
      finish(std::get<EpochEnd>(pending_.front()));
    }
    pending_.pop_front();
  }
}

void ClientImpl::finish(Assembly& assembly) {
  auto microbatch = assembly.finish();
  if (!microbatch) {
    fail(std::move(microbatch).error());
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (failure_) return;  // the failure lies before it
    received_ = microbatch->header.position;
    microbatches_ready_ += 1;
    ready_.emplace_back(*std::move(microbatch));
  }
  changed_.notify_all();  // without the mutex, which the trainer needs to go on
  const MutexLock lock(mutex_);
  return_credit();
}

void ClientImpl::finish(const EpochEnd& end) {
  const MutexLock lock(mutex_);
  if (failure_) return;                                          // the epoch is incomplete
  if (last_epoch_end_ && end.epoch <= *last_epoch_end_) return;  // repeated after a reconnect
  last_epoch_end_ = end.epoch;
  done_ = end.last_epoch;
  ready_.emplace_back(end);
  changed_.notify_all();
}

void ClientImpl::on_tick(std::chrono::nanoseconds silence) {
  receive_blocks();
  if (const auto why_not = pin_failures_.take()) {
    log(options_.log, LogLevel::kInfo,
        "shared memory is not registered with CUDA, so copies to a device need staging: " +
            *why_not);
  }
  const MutexLock lock(mutex_);
  if (blocks_.needs_session()) connection_->join_again();
  if (!welcomed_ || done_ || failure_) return;
  if (silence <= std::chrono::milliseconds(welcome_.heartbeat_timeout_ms)) return;
  silent_ = true;
  failure_ = Error(ErrorCode::kUnavailable,
                   options_.endpoint + " has sent nothing for " +
                       in_seconds(std::chrono::milliseconds(welcome_.heartbeat_timeout_ms)) +
                       ": the node or its network is down");
  changed_.notify_all();
}

void ClientImpl::fail(Error error) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  changed_.notify_all();
}

// Grants credit so that `prefetch` microbatches are ready or on their way.
void ClientImpl::top_up() {
  const std::uint32_t covered = credit_out_ + microbatches_ready_;
  if (awaits_welcome_ || covered >= prefetch()) return;
  const std::uint32_t more = prefetch() - covered;
  connection_->send(Credit{more, session_});
  credit_out_ += more;
}

// Returns a credit: the node has spent it on a microbatch, even if that was received before.
void ClientImpl::return_credit() {
  if (credit_out_ > 0) credit_out_ -= 1;
  top_up();
}

void ClientImpl::acknowledge() {
  const MutexLock lock(mutex_);
  if (!left_) end_use();
}

void ClientImpl::use(const Position& position, std::chrono::nanoseconds waited) {
  const MutexLock lock(mutex_);
  if (!left_) end_use();
  in_use_ = position;
  data_wait_ += waited;
}

// Acknowledges the microbatch in use.
void ClientImpl::end_use() {
  const std::optional<Position> done = std::exchange(in_use_, std::nullopt);
  if (!done) return;
  acknowledged_ = done;
  connection_->send(Acknowledgement{*done});
}

bool ClientImpl::wait(std::chrono::milliseconds limit) {
  const auto asked = Clock::now();
  const MutexLock lock(mutex_);
  if (!left_ && !options_.prepares_ahead) end_use();
  const bool ready =
      changed_.wait_for(mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return is_ready(); });
  if (!options_.prepares_ahead) data_wait_ += Clock::now() - asked;
  return ready;
}

Result<std::optional<Microbatch>> ClientImpl::next(const std::stop_token& stop) {
  const auto asked = Clock::now();
  const MutexLock lock(mutex_);
  if (!left_ && !options_.prepares_ahead) end_use();
  const bool woken =
      changed_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return is_ready(); });
  if (!options_.prepares_ahead) data_wait_ += Clock::now() - asked;
  if (left_) return Error(ErrorCode::kCancelled, "the client is closed");
  if (!ready_.empty()) {
    auto microbatch = hand_out(asked);
    if (microbatch && !options_.prepares_ahead) in_use_ = microbatch->header.position;
    return microbatch;
  }
  if (failure_) return *failure_;
  if (!woken) return Error(ErrorCode::kCancelled, "stopped while waiting for a microbatch");
  return std::optional<Microbatch>();
}

std::optional<Microbatch> ClientImpl::hand_out(Clock::time_point asked) {
  Ready ready = std::move(ready_.front());
  ready_.pop_front();
  if (const auto* end = std::get_if<EpochEnd>(&ready)) {
    epoch_end_ = *end;
    return std::nullopt;
  }
  microbatches_ready_ -= 1;
  top_up();
  auto& microbatch = std::get<Microbatch>(ready);
  microbatch.waited = Clock::now() - asked;
  return std::move(microbatch);
}

namespace {

Status check_forward(const Report& report) {
  double all = 0;
  for (const double seconds : report.seconds) all += std::max(seconds, 0.0);
  const bool is_part = report.forward_s >= 0 && report.forward_s <= all;  // also false for NaN
  if (report.forward_s == kNotMeasured || is_part) return {};
  return Error(ErrorCode::kInvalidArgument, "forward_s: " + std::to_string(report.forward_s) +
                                                " seconds are not a part of the " +
                                                std::to_string(all) + " reported");
}

}  // namespace

Status ClientImpl::report(const Report& report) {
  for (std::size_t i = 0; i < kModules; ++i) {
    const double seconds = report.seconds.at(i);
    if (!is_reportable(seconds)) {
      return Error(ErrorCode::kInvalidArgument,
                   std::string(module_name(static_cast<Module>(i))) + ": " +
                       std::to_string(seconds) +
                       " seconds is neither -1 (not measured) nor 0 nor between 1 ns and a day");
    }
  }
  ISOCOST_TRY(check_forward(report));
  const MutexLock lock(mutex_);
  if (left_) return {};
  Report with_wait = report;
  with_wait.data_wait_s = std::chrono::duration<double>(data_wait_).count();
  data_wait_ = {};
  connection_->send(with_wait);
  return {};
}

Status ClientImpl::send_profile(const std::string& profile) {
  if (profile.size() > kMaxProfileBytes) {
    return Error(ErrorCode::kInvalidArgument, "a profile of " + std::to_string(profile.size()) +
                                                  " bytes; at most " +
                                                  std::to_string(kMaxProfileBytes) + " are sent");
  }
  const MutexLock lock(mutex_);
  if (!left_) connection_->send(ProfileUpdate{profile});
  return {};
}

void ClientImpl::leave(bool acknowledge_last) {
  {
    const MutexLock lock(mutex_);
    if (connection_ == nullptr) return;
    if (!std::exchange(left_, true)) {
      if (acknowledge_last) end_use();
      connection_->send(Leave{});
      changed_.notify_all();
    }
  }
  connection_->stop();
}

}  // namespace

const SharedTensor* Microbatch::find(std::string_view name) const {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return &named.tensor;
  }
  return nullptr;
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options,
                                                const std::stop_token& stop) {
  auto client = std::make_unique<ClientImpl>(options);
  ISOCOST_TRY(client->join(stop));
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace isocost
