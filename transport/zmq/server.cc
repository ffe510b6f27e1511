#include "transport/zmq/server.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/mutex.h"
#include "base/range.h"
#include "base/thread_name.h"
#include "transport/protocol/coordinator.h"
#include "transport/shared_memory/block_sender.h"
#include "transport/wire/wire.h"
#include "transport/zmq/internal/endpoint.h"
#include "transport/zmq/internal/fragment_messages.h"
#include "transport/zmq/internal/frames.h"
#include "transport/zmq/internal/inbox.h"
#include "transport/zmq/internal/job_key.h"
#include "transport/zmq/internal/key_gate.h"
#include "transport/zmq/internal/lost_peers.h"
#include "transport/zmq/internal/polling.h"
#include "transport/zmq/internal/running_clock.h"
#include "transport/zmq/internal/server_security.h"
#include "transport/zmq/internal/stranger_answers.h"
#include "transport/zmq/internal/wake.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

// Most bytes of a client's message. Clients send small messages, except for a profile, and for a
// saved state in a hello.
constexpr std::int64_t kLargestRequest =
    std::int64_t{kMaxCostModelStateBytes} + (std::int64_t{64} << 10);
constexpr std::chrono::milliseconds kLinger{1000};
// Time within which a peer must authenticate; otherwise it is disconnected.
constexpr std::chrono::milliseconds kHandshake{5000};
constexpr std::int32_t kEveryRank = -1;
constexpr std::chrono::seconds kBetweenWarnings{1};  // a stranger must not fill the log

using Messages = std::vector<std::vector<zmq::message_t>>;

struct MessageToRank {
  std::int32_t rank = 0;
  std::uint64_t session = 0;  // 0: whichever client holds the rank
  std::vector<zmq::message_t> frames;
};

Messages one_message(const Message& message) {
  Messages messages(1);
  messages.front().push_back(copied_frame(encode(message)));
  return messages;
}

std::uint64_t random_id() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const ServerOptions& options, Admission admit,
             std::function<void(const ClientEvent&)> on_event, LogSink log)
      : options_(options),
        admit_(std::move(admit)),
        on_event_(std::move(on_event)),
        log_(std::move(log)) {}
  ~ServerImpl() override;

  Status start();
  const std::string& endpoint() const override { return endpoint_; }

  void begin(std::int32_t rank, const MicrobatchHeader& header, std::uint64_t session) override;
  void fragment(std::int32_t rank, Fragment fragment, std::shared_ptr<const void> keep,
                std::uint64_t session) override;
  void epoch_end(std::int32_t rank, const EpochEnd& end, std::uint64_t session) override;
  void refuse(std::int32_t rank, const Refusal& refusal, std::uint64_t session) override;
  void notify(std::int32_t rank, const Notice& notice, std::uint64_t session) override {
    queue(rank, session, one_message(notice));
  }
  void notify_all(const Notice& notice) override { queue(kEveryRank, 0, one_message(notice)); }
  void fail(const Error& error, const std::optional<Position>& resume_point) override;
  std::chrono::nanoseconds since_last_turn() const override {
    return Clock::now().time_since_epoch() - std::chrono::nanoseconds(last_turn_);
  }
  std::uint64_t microbatches_shared() const override {
    return blocks_ ? blocks_->microbatches() : 0;
  }

 private:
  Status bind(const ServerSecurity& security);
  void share_memory();
  void loop(const std::stop_token& stop);
  void send_queued();
  void receive_all();
  void handle(const std::string& address, std::span<const std::byte> frame);
  void hello(const std::string& address, const Hello& hello);
  void close_lost(const Hello& hello);
  void close(const std::string& address);
  void perform();
  void perform(const ClientEvent& event);
  void perform(WelcomeClient welcome);
  void perform(const RefuseClient& refused);
  void keep_alive();
  bool send_to(const std::string& address, const Message& message);
  void refuse_stranger(const std::string& address, const Refusal& refusal);
  void send_to_all(std::vector<zmq::message_t>& frames);
  std::string name_of(std::int32_t rank) const {
    return options_.rank_name ? options_.rank_name(rank) : "rank " + std::to_string(rank);
  }
  void queue(std::int32_t rank, std::uint64_t session, Messages messages);
  void warn(const std::string& text);
  std::optional<Failure> failure();

  const ServerOptions options_;
  const Admission admit_;
  std::function<void(const ClientEvent&)> on_event_;
  LogSink log_;
  std::string endpoint_;
  JobKeyFile job_key_file_;

  Mutex mutex_;
  std::deque<MessageToRank> outgoing_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ ISOCOST_GUARDED_BY(mutex_);

  std::atomic<std::int64_t> last_turn_ = Clock::now().time_since_epoch().count();
  std::unique_ptr<BlockSender> blocks_;  // null: no memory is shared
  Wake wake_;
  zmq::context_t context_{options_.io_threads};
  std::optional<KeyGate> gate_;
  zmq::socket_t router_;
  // Used by the thread only:
  // Time in which the thread did not run counts as at most a heartbeat, and a little.
  RunningClock clock_{options_.heartbeat + std::chrono::milliseconds(100)};
  Inbox inbox_{router_};
  Coordinator coordinator_{{random_id(), options_.heartbeat, options_.heartbeat_timeout,
                            [this](std::int32_t rank) { return name_of(rank); }}};
  CoordinatorActions actions_;
  StrangerAnswers answers_;
  Clock::time_point next_beat_;
  Clock::time_point next_warning_;
  std::jthread thread_;  // declared last, so it is joined first
};

ServerImpl::~ServerImpl() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  wake_.notify();
  thread_.join();
}

Status ServerImpl::start() {
  ISOCOST_ASSIGN(const ServerSecurity security, read_security(options_));
  router_ = zmq::socket_t(context_, zmq::socket_type::router);
  gate_ = ask_for_keys(context_, router_, security);
  ISOCOST_TRY(bind(security));
  share_memory();
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  return {};
}

// Sets up shared memory. A node without it works as well, more slowly.
void ServerImpl::share_memory() {
  if (!options_.reserve_block) return;
  auto blocks = BlockSender::create(
      options_.reserve_block, [this](std::int32_t rank) { return name_of(rank); }, log_);
  if (blocks) {
    blocks_ = *std::move(blocks);
  } else {
    log(log_, LogLevel::kWarning,
        "microbatches go over the socket and not in shared memory: " + blocks.error().message());
  }
}

// Returns an endpoint that ZeroMQ can bind to: it takes addresses and interfaces, not names.
std::string bindable(const std::string& endpoint) {
  constexpr std::string_view kByName = "tcp://localhost:";
  if (!endpoint.starts_with(kByName)) return endpoint;
  return "tcp://127.0.0.1:" + endpoint.substr(kByName.size());
}

Status ServerImpl::bind(const ServerSecurity& security) {
  router_.set(zmq::sockopt::sndhwm, 0);  // credits bound what is queued
  router_.set(zmq::sockopt::rcvhwm, 0);
  router_.set(zmq::sockopt::router_mandatory, true);
  router_.set(zmq::sockopt::maxmsgsize, kLargestRequest);
  router_.set(zmq::sockopt::linger, static_cast<int>(kLinger.count()));
  router_.set(zmq::sockopt::handshake_ivl, static_cast<int>(kHandshake.count()));
  // Frees what is queued for a stopped or vanished peer; our heartbeats only free its rank.
  close_lost_connections(router_, options_.heartbeat_timeout);
  router_.set(zmq::sockopt::ipv6, options_.bind.find('[') != std::string::npos);
  try {
    router_.bind(bindable(options_.bind));
  } catch (const zmq::error_t& error) {
    if (error.num() == EADDRINUSE) {
      return Error(ErrorCode::kAlreadyExists,
                   "bind: " + options_.bind +
                       " is in use: stop the program that listens there, or choose another address "
                       "(port * picks a free one)");
    }
    return Error(ErrorCode::kInvalidArgument,
                 "bind: cannot listen on " + options_.bind + ": " + error.what());
  }
  endpoint_ = router_.get(zmq::sockopt::last_endpoint);
  remove_old_job_keys(endpoint_);
  if (!security.job_key.empty()) {
    ISOCOST_ASSIGN(job_key_file_, JobKeyFile::write(endpoint_, security.job_key));
  }
  if (endpoint_.starts_with("ipc:///")) {
    chmod(endpoint_.c_str() + std::string_view("ipc://").size(), 0600);
  }
  return {};
}

void ServerImpl::loop(const std::stop_token& stop) {
  name_thread("isocost-server");
  block_signals();
  while (!stop.stop_requested()) {
    std::vector<zmq::pollitem_t> items = {{router_.handle(), 0, ZMQ_POLLIN, 0},
                                          {nullptr, wake_.descriptor(), ZMQ_POLLIN, 0}};
    if (blocks_) items.push_back({nullptr, blocks_->descriptor(), ZMQ_POLLIN, 0});
    if (gate_) items.push_back({gate_->socket().handle(), 0, ZMQ_POLLIN, 0});
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::max(Clock::duration::zero(), next_beat_ - Clock::now()));
    // Messages that were read ahead no longer make the socket readable.
    poll_items(items, inbox_.has_unread() ? std::chrono::milliseconds(0)
                                          : wait + std::chrono::milliseconds(1));
    if (gate_ && (items.back().revents & ZMQ_POLLIN) != 0) {
      if (const auto refused = gate_->answer()) warn(*refused);
    }
    last_turn_ = Clock::now().time_since_epoch().count();
    if (blocks_) blocks_->serve();
    wake_.drain();
    receive_all();
    send_queued();
    keep_alive();
  }
  send_queued();
  remove_path(options_.bind);
  job_key_file_ = JobKeyFile();  // while nobody else can have the port
  router_.close();
}

void ServerImpl::receive_all() {
  // The number is bounded so that a flood of requests cannot delay microbatches without end.
  for (int i = 0; i < 1000; ++i) {
    const std::vector<zmq::message_t> frames = inbox_.next();
    if (frames.empty()) return;
    if (frames.size() != 2) continue;  // clients send one frame per message
    handle(frames[0].to_string(), bytes_of(frames[1]));
  }
}

void ServerImpl::handle(const std::string& address, std::span<const std::byte> frame) {
  const auto message = decode(frame);
  if (!message) {
    refuse_stranger(address, Refusal{message.error().code(), message.error().message()});
    warn("a client's message was refused: " + message.error().message());
    return;
  }
  if (const auto* received = std::get_if<Hello>(&*message)) {
    hello(address, *received);
    return;
  }
  coordinator_.receive(address, *message, clock_.now(), actions_);
  perform();
}

void ServerImpl::hello(const std::string& address, const Hello& hello) {
  if (const auto failed = failure()) {
    send_to(address, *failed);
    if (hello.rank != kNoRank) on_event_(ClientLeft{hello.rank, false});
    return;
  }
  close_lost(hello);
  const JoinRequest request = coordinator_.request(hello, clock_.now());
  coordinator_.answer(address, request, admit_(request), clock_.now(), actions_);
  perform();
}

// Ends the memberships that a hello depends on and whose connections are gone. The rank of a killed
// trainer is then free at once, without waiting for the time-out.
void ServerImpl::close_lost(const Hello& hello) {
  while (const std::string* other = coordinator_.depends_on(hello)) {
    const std::string address = *other;
    if (send_to(address, Heartbeat{})) return;
    close(address);
  }
}

// Takes what a lost connection has brought, though the hello that asks may have overtaken it, and
// closes it.
void ServerImpl::close(const std::string& address) {
  for (const Inbox::Frames& frames : inbox_.take_of(address)) {
    if (frames.size() != 2) continue;
    const auto message = decode(bytes_of(frames[1]));
    if (message) coordinator_.receive(address, *message, clock_.now(), actions_);
  }
  coordinator_.close(address, actions_);
  perform();
}

void ServerImpl::perform() {
  for (CoordinatorAction& action : actions_) {
    if (const auto* event = std::get_if<ClientEvent>(&action)) {
      perform(*event);
    } else if (const auto* sent = std::get_if<SendToClient>(&action)) {
      send_to(sent->address, sent->message);
    } else if (auto* welcome = std::get_if<WelcomeClient>(&action)) {
      perform(std::move(*welcome));
    } else if (const auto* refused = std::get_if<RefuseClient>(&action)) {
      perform(*refused);
    } else if (const auto* line = std::get_if<LogLine>(&action)) {
      log(log_, line->level, line->text);
    }
  }
  actions_.clear();
}

void ServerImpl::perform(const ClientEvent& event) {
  // A client attaches before it grants the first credit, and gives back blocks before the next.
  if (blocks_ && std::holds_alternative<CreditGranted>(event)) blocks_->serve();
  const auto* left = std::get_if<ClientLeft>(&event);
  if (blocks_ && left != nullptr) blocks_->forget(left->rank);
  on_event_(event);
}

void ServerImpl::perform(WelcomeClient welcome) {
  if (blocks_ && welcome.rank != kNoRank) {
    welcome.welcome.shared_memory = blocks_->offer(welcome.rank, welcome.welcome.session);
  }
  send_to(welcome.address, std::move(welcome.welcome));
}

void ServerImpl::perform(const RefuseClient& refused) {
  refuse_stranger(refused.address, refused.refusal);
  warn("a client was refused: " + refused.refusal.message);
}

void ServerImpl::keep_alive() {
  const auto now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + options_.heartbeat;
  job_key_file_.keep();
  coordinator_.tick(clock_.now(), actions_);
  perform();
}

// Sends a message. Returns false if the connection with that address is gone.
bool ServerImpl::send_to(const std::string& address, const Message& message) {
  std::vector<zmq::message_t> frames;
  frames.emplace_back(address);
  frames.push_back(copied_frame(encode(message)));
  return send_frames(router_, frames);
}

// Refuses a peer without a rank, at a limited rate: answers to peers that never read them would
// pile up.
void ServerImpl::refuse_stranger(const std::string& address, const Refusal& refusal) {
  if (answers_.may_answer(address, Clock::now())) send_to(address, refusal);
}

void ServerImpl::send_to_all(std::vector<zmq::message_t>& frames) {
  for (const auto& [rank, address] : coordinator_.all()) {
    std::vector<zmq::message_t> copies(1 + frames.size());
    copies.front() = zmq::message_t(address);
    for (std::size_t i = 0; i < frames.size(); ++i) copies[i + 1].copy(frames[i]);
    send_frames(router_, copies);
  }
}

void ServerImpl::warn(const std::string& text) {
  const auto now = Clock::now();
  if (now < next_warning_) return;
  next_warning_ = now + kBetweenWarnings;
  log(log_, LogLevel::kWarning, text);
}

std::optional<Failure> ServerImpl::failure() {
  const MutexLock lock(mutex_);
  return failure_;
}

void ServerImpl::send_queued() {
  std::deque<MessageToRank> ready;
  {
    const MutexLock lock(mutex_);
    ready.swap(outgoing_);
  }
  for (MessageToRank& message : ready) {
    if (message.rank == kEveryRank) {
      send_to_all(message.frames);
      continue;
    }
    const std::string* address = coordinator_.address_of(message.rank, message.session);
    if (address == nullptr) continue;  // sent again after a join
    message.frames.insert(message.frames.begin(), zmq::message_t(*address));
    send_frames(router_, message.frames);
  }
}

// Queues messages for a rank. Those of one call stay together, because pieces of a fragment must
// not mix with those of another copy of it.
void ServerImpl::queue(std::int32_t rank, std::uint64_t session, Messages messages) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = outgoing_.empty();
    for (auto& frames : messages) outgoing_.push_back({rank, session, std::move(frames)});
  }
  if (first) wake_.notify();
}

void ServerImpl::begin(std::int32_t rank, const MicrobatchHeader& header, std::uint64_t session) {
  // The header goes to the client that has the block, if any: another client would wait for it.
  if (blocks_) session = blocks_->begin(rank, header, session).value_or(session);
  queue(rank, session, one_message(header));
}

void ServerImpl::fragment(std::int32_t rank, Fragment fragment, std::shared_ptr<const void> keep,
                          std::uint64_t session) {
  if (blocks_ && blocks_->add(rank, fragment, session)) return;
  queue(rank, session, fragment_messages(fragment, keep));
}

void ServerImpl::epoch_end(std::int32_t rank, const EpochEnd& end, std::uint64_t session) {
  queue(rank, session, one_message(end));
}

void ServerImpl::refuse(std::int32_t rank, const Refusal& refusal, std::uint64_t session) {
  queue(rank, session, one_message(refusal));
}

void ServerImpl::fail(const Error& error, const std::optional<Position>& resume_point) {
  const Failure failure{error.code(), error.message(), resume_point.has_value(),
                        resume_point.value_or(Position{})};
  {
    const MutexLock lock(mutex_);
    failure_ = failure;
  }
  queue(kEveryRank, 0, one_message(failure));
}

}  // namespace

Status check_server(const ServerOptions& options) {
  if (options.heartbeat.count() < 1 || options.heartbeat_timeout < options.heartbeat) {
    return Error(ErrorCode::kInvalidArgument,
                 "heartbeat_timeout must be at least the heartbeat interval of " +
                     in_seconds(options.heartbeat) + ": it is " +
                     in_seconds(options.heartbeat_timeout));
  }
  ISOCOST_TRY(check_range("io_threads", options.io_threads, 1, 64));
  ISOCOST_TRY(read_security(options));
  return check_path_is_free(options.bind);
}

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options, Admission admit,
                                               std::function<void(const ClientEvent&)> on_event,
                                               LogSink log) {
  ISOCOST_TRY(check_server(options));
  try {
    auto server = std::make_unique<ServerImpl>(options, std::move(admit), std::move(on_event),
                                               std::move(log));
    ISOCOST_TRY(server->start());
    return std::unique_ptr<Server>(std::move(server));
  } catch (const zmq::error_t& error) {
    return Error(ErrorCode::kInvalidArgument, options.bind + ": " + error.what());
  } catch (const std::system_error& error) {
    return Error(ErrorCode::kUnavailable, options.bind + ": " + error.what());
  }
}

}  // namespace isocost
