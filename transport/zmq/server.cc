#include "transport/zmq/server.h"

#include <sys/stat.h>

#include <algorithm>
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

#include "base/counted.h"
#include "base/mutex.h"
#include "base/range.h"
#include "base/thread_name.h"
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
#include "transport/zmq/internal/rank_holders.h"
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
             std::function<void(const ServerEvent&)> on_event, LogSink log)
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
  void let_in(const std::string& address, const Hello& hello, Welcome welcome);
  void send_welcome(const std::string& address, std::uint64_t session, Welcome welcome);
  void close_lost(const Hello& hello);
  bool close_if_lost(std::int32_t rank);
  std::optional<Refusal> check_rank_is_free(const Hello& hello);
  void take(std::int32_t rank, const Message& message);
  void keep_alive();
  bool send_to(const std::string& address, const Message& message);
  void refuse_stranger(const std::string& address, const Refusal& refusal);
  void send_to_all(std::vector<zmq::message_t>& frames);
  void leave(std::int32_t rank, bool finished);
  std::string name_of(std::int32_t rank) const {
    return options_.rank_name ? options_.rank_name(rank) : "rank " + std::to_string(rank);
  }
  void queue(std::int32_t rank, std::uint64_t session, Messages messages);
  void warn(const std::string& text);
  std::optional<Failure> failure();

  const ServerOptions options_;
  const std::uint64_t node_id_ = random_id();
  const Admission admit_;
  std::function<void(const ServerEvent&)> on_event_;
  LogSink log_;
  std::string endpoint_;
  JobKeyFile job_key_file_;

  Mutex mutex_;
  std::deque<MessageToRank> outgoing_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ ISOCOST_GUARDED_BY(mutex_);

  std::unique_ptr<BlockSender> blocks_;  // null: no memory is shared
  Wake wake_;
  zmq::context_t context_{options_.io_threads};
  std::optional<KeyGate> gate_;
  zmq::socket_t router_;
  // Used by the thread only:
  // Time in which the thread did not run counts as at most a heartbeat, and a little.
  RunningClock clock_{options_.heartbeat + std::chrono::milliseconds(100)};
  Inbox inbox_{router_};
  RankHolders holders_;
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
  // Messages that a client sent before it noticed a lost connection come from an address that holds
  // no rank. The client sends hello again, and repeats its last acknowledgement.
  if (const auto rank = holders_.heard(address, clock_.now())) take(*rank, *message);
}

void ServerImpl::hello(const std::string& address, const Hello& hello) {
  if (const auto failed = failure()) {
    send_to(address, *failed);
    if (hello.rank != kNoRank) on_event_(ClientLeft{hello.rank, false});
    return;
  }
  close_lost(hello);
  const JoinRequest request{hello, holders_.is_same_client(hello), !holders_.held_by_another(hello),
                            check_rank_is_free(hello)};
  auto welcome = admit_(request);
  if (welcome && hello.rank == kNoRank) {
    send_welcome(address, 0, *std::move(welcome));
    return;
  }
  if (welcome && request.rank_taken) welcome = tl::unexpected(*request.rank_taken);
  if (welcome) {
    let_in(address, hello, *std::move(welcome));
  } else {
    refuse_stranger(address, welcome.error());
    warn("a client was refused: " + welcome.error().message);
  }
}

void ServerImpl::let_in(const std::string& address, const Hello& hello, Welcome welcome) {
  const auto held = holders_.rank_of(address);
  if (held && *held != hello.rank) leave(*held, false);
  const bool same = holders_.is_same_client(hello);
  const std::uint64_t session = holders_.join(address, hello, clock_.now());
  std::optional<Position> received;
  if (hello.has_position) received = hello.position;
  on_event_(ClientJoined{hello.rank, same, received, session});
  if (blocks_) welcome.shared_memory = blocks_->offer(hello.rank, session);
  send_welcome(address, session, std::move(welcome));
}

void ServerImpl::send_welcome(const std::string& address, std::uint64_t session, Welcome welcome) {
  welcome.node_id = node_id_;
  welcome.session = session;
  welcome.heartbeat_ms = static_cast<std::uint32_t>(options_.heartbeat.count());
  welcome.heartbeat_timeout_ms = static_cast<std::uint32_t>(options_.heartbeat_timeout.count());
  send_to(address, welcome);
}

// Ends the memberships that a hello depends on and whose connections are gone: that of its rank,
// and those of all others unless one is alive. The rank of a killed trainer is then free at once,
// without waiting for the time-out.
void ServerImpl::close_lost(const Hello& hello) {
  if (holders_.is_held_by_another(hello)) close_if_lost(hello.rank);
  for (auto other = holders_.held_by_another(hello); other;
       other = holders_.held_by_another(hello)) {
    if (!close_if_lost(*other)) return;
  }
}

// Ends a rank's membership if its connection is gone, after what it brought: the last
// acknowledgement says where the next client continues, though that one's hello may have overtaken
// it. Returns whether it is gone.
bool ServerImpl::close_if_lost(std::int32_t rank) {
  const std::string address = *holders_.address_of(rank);
  if (send_to(address, Heartbeat{})) return false;
  for (const Inbox::Frames& frames : inbox_.take_of(address)) {
    if (frames.size() != 2) continue;
    const auto message = decode(bytes_of(frames[1]));
    const auto held = holders_.heard(address, clock_.now());
    if (message && held) take(*held, *message);
  }
  if (holders_.rank_of(address)) leave(rank, false);
  return true;
}

// The other client may have stopped, or its machine may be gone with the connection left open, so
// it is known to be alive only if it sends something after another client asked for the rank.
std::optional<Refusal> ServerImpl::check_rank_is_free(const Hello& hello) {
  if (!holders_.is_held_by_another(hello)) return std::nullopt;
  const std::string rank = name_of(hello.rank);
  if (holders_.challenge(hello.rank, clock_.now())) {
    return Refusal{
        ErrorCode::kAlreadyExists,
        rank + " is taken by another client, which is alive: give each process its own rank"};
  }
  return Refusal{ErrorCode::kUnavailable,
                 rank +
                     " is held by another client: it is free when that client is gone, or has sent "
                     "nothing for the heartbeat time-out"};
}

void ServerImpl::take(std::int32_t rank, const Message& message) {
  if (const auto* credit = std::get_if<Credit>(&message)) {
    // The client granted this credit before it received the welcome of this session.
    if (credit->session != holders_.session_of(rank)) return;
    // A client attaches before it grants the first credit, and gives back blocks before the next.
    if (blocks_) blocks_->serve();
    on_event_(CreditGranted{rank, credit->microbatches});
  } else if (const auto* done = std::get_if<Acknowledgement>(&message)) {
    on_event_(Acknowledged{rank, done->position});
  } else if (const auto* report = std::get_if<Report>(&message)) {
    on_event_(Reported{rank, *report});
  } else if (const auto* profile_update = std::get_if<ProfileUpdate>(&message)) {
    on_event_(ProfileReceived{rank, *profile_update});
  } else if (std::holds_alternative<Leave>(message)) {
    leave(rank, true);
  }
}

void ServerImpl::keep_alive() {
  const auto now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + options_.heartbeat;
  job_key_file_.keep();
  for (const auto& [rank, address] : holders_.all()) {
    if (holders_.is_silent(rank, clock_.now(), options_.heartbeat_timeout)) {
      const std::string text =
          name_of(rank) + " sent no heartbeat for " + in_seconds(options_.heartbeat_timeout) +
          " and is considered lost; its microbatches are kept until it comes back";
      log(log_, LogLevel::kWarning, text);
      leave(rank, false);
      notify_all(Notice{text});
    } else {
      send_to(address, Heartbeat{});
    }
  }
}

void ServerImpl::leave(std::int32_t rank, bool finished) {
  holders_.leave(rank);
  if (blocks_) blocks_->forget(rank);
  on_event_(ClientLeft{rank, finished});
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
  for (const auto& [rank, address] : holders_.all()) {
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
    const std::string* address = holders_.address_of(message.rank);
    if (address == nullptr) continue;  // sent again after a join
    if (message.session != 0 && message.session != holders_.session_of(message.rank)) continue;
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

std::string client_name(const Hello& hello) {
  return hello.rank == kNoRank ? "a client" : "rank " + std::to_string(hello.rank);
}

std::optional<Refusal> check_rank(const Hello& hello, std::int32_t ranks) {
  const std::string client = client_name(hello);
  if (hello.rank < kNoRank || hello.rank >= ranks) {
    return Refusal{
        ErrorCode::kInvalidArgument,
        client + " is out of range: this node serves " +
            (ranks == 1 ? "rank 0 alone" : "ranks 0 to " + std::to_string(ranks - 1)) +
            ". Set world_size to the number of ranks on every rank, and the node's --ranks, where "
            "given, to the same"};
  }
  if (hello.world_size != 0 && hello.world_size != ranks) {
    return Refusal{ErrorCode::kInvalidArgument, client + " expects a world size of " +
                                                    std::to_string(hello.world_size) +
                                                    ", the node serves " + counted(ranks, "rank")};
  }
  return std::nullopt;
}

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
                                               std::function<void(const ServerEvent&)> on_event,
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
