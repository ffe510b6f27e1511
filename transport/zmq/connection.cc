#include "transport/zmq/connection.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "transport/zmq/internal/dial_failure.h"
#include "transport/zmq/internal/endpoint.h"
#include "transport/zmq/internal/frames.h"
#include "transport/zmq/internal/job_key.h"
#include "transport/zmq/internal/lost_peers.h"
#include "transport/zmq/internal/polling.h"
#include "transport/zmq/internal/running_clock.h"
#include "transport/zmq/internal/wake.h"
#include "transport/zmq/keys.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kMonitorAddress = "inproc://connection-events";
constexpr std::chrono::milliseconds kLongestPoll{100};
constexpr int kLingerMs = 200;
constexpr int kReconnectMs = 50;
constexpr int kReconnectMostMs = 1000;
constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kUpOrDown = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | kHandshakeFailed;
constexpr std::chrono::milliseconds kBetweenTries{200};

struct MessageToNode {
  std::vector<std::byte> bytes;
  bool is_credit = false;
};

class ConnectionImpl final : public Connection {
 public:
  ConnectionImpl() = default;
  ~ConnectionImpl() override { stop(); }

  Status prepare(const ConnectionOptions& options);
  Status start(ConnectionHandlers handlers) override;
  void send(const Message& message) override;
  void stop() override;
  void join_again() override {
    join_again_ = true;
    wake_.notify();
  }
  void set_heartbeat(std::chrono::milliseconds interval) override {
    heartbeat_ms_ = interval.count();
  }
  std::string why_unreached() const override { return dial_.why_unreached(endpoint_); }

 private:
  Status secure(const ConnectionOptions& options);
  void connect();
  void connect_again();
  void loop(const std::stop_token& stop);
  void take_events();
  void receive_all();
  void send_queued();
  void keep_alive();
  void send_hello();
  void send_now(std::span<const std::byte> bytes);

  ConnectionHandlers handlers_;
  std::atomic<std::int64_t> heartbeat_ms_ = 1000;
  std::atomic<bool> join_again_ = false;

  Mutex mutex_;
  std::deque<MessageToNode> outgoing_ ISOCOST_GUARDED_BY(mutex_);

  Wake wake_;
  zmq::context_t context_{1};
  zmq::socket_t dealer_;
  zmq::socket_t events_;
  std::string endpoint_;
  bool has_curve_ = false;
  std::atomic<bool> up_ = false;
  DialFailure dial_;
  // Used by the connection's thread only.
  RunningClock clock_{2 * kLongestPoll};
  Clock::time_point heard_ = clock_.now();  // by `clock_`
  Clock::time_point next_beat_;
  std::string job_key_;     // the key found for the endpoint; empty: none
  bool shows_key_ = false;  // whether the last attempt to connect sent the key
  bool refused_ = false;    // libzmq does not try again after a failed handshake
  Clock::time_point next_try_;
  std::once_flag stopped_;
  std::jthread thread_;  // declared last, so it is joined first
};

void ConnectionImpl::stop() {
  std::call_once(stopped_, [this] {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    wake_.notify();
    thread_.join();
    context_.close();  // waits for queued messages
  });
}

Status ConnectionImpl::prepare(const ConnectionOptions& options) {
  ISOCOST_TRY(is_local_endpoint(options.endpoint));
  if (options.endpoint.ends_with(":*")) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + options.endpoint +
                     "' names no port: give the one that the node prints (listening on …)");
  }
  dealer_ = zmq::socket_t(context_, zmq::socket_type::dealer);
  ISOCOST_TRY(secure(options));
  dealer_.set(zmq::sockopt::sndhwm, 0);
  dealer_.set(zmq::sockopt::rcvhwm, 0);
  dealer_.set(zmq::sockopt::linger, kLingerMs);
  dealer_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  dealer_.set(zmq::sockopt::reconnect_ivl_max, kReconnectMostMs);
  // Uses the default time-out, since the node's own comes with its welcome, too late for the
  // socket.
  close_lost_connections(dealer_, std::chrono::milliseconds(Welcome{}.heartbeat_timeout_ms));
  // `immediate` is not set: with it, libzmq drops unread frames of a lost connection even in the
  // middle of a message, and then aborts (fq.cpp, "!_more"). As a consequence, messages sent into a
  // lost connection arrive before the hello of the next one, and the node drops them.
  dealer_.set(zmq::sockopt::maxmsgsize, options.max_frame_bytes);
  dealer_.set(zmq::sockopt::ipv6, options.endpoint.find('[') != std::string::npos);
  if (zmq_socket_monitor(dealer_.handle(), kMonitorAddress, kUpOrDown | DialFailure::events()) !=
      0) {
    return Error(ErrorCode::kInternal, zmq_strerror(zmq_errno()));
  }
  events_ = zmq::socket_t(context_, zmq::socket_type::pair);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(kMonitorAddress);
  endpoint_ = options.endpoint;
  has_curve_ = !options.curve_server_key_file.empty();
  connect();
  return {};
}

Status ConnectionImpl::start(ConnectionHandlers handlers) {
  handlers_ = std::move(handlers);
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  } catch (const std::system_error& error) {
    return Error(ErrorCode::kUnavailable, endpoint_ + ": " + error.what());
  }
  return {};
}

Status ConnectionImpl::secure(const ConnectionOptions& options) {
  if (options.curve_server_key_file.empty()) return {};
  ISOCOST_ASSIGN(const std::string server, read_public_key(options.curve_server_key_file));
  auto own = options.curve_secret_key_file.empty() ? generate_keys()
                                                   : read_secret_key(options.curve_secret_key_file);
  if (!own) return std::move(own).error();
  dealer_.set(zmq::sockopt::curve_serverkey, server);
  dealer_.set(zmq::sockopt::curve_publickey, own->public_key);
  dealer_.set(zmq::sockopt::curve_secretkey, own->secret_key);
  return {};
}

// Connects with the job key of the node at the endpoint, unless there is none or the node has just
// refused it: a node that was killed leaves its key, and what listens on its port next may ask for
// none.
void ConnectionImpl::connect() {
  if (!has_curve_) {
    const std::string found = find_job_key(endpoint_).value_or("");
    const bool refused_with_it = refused_ && shows_key_ && found == job_key_;
    job_key_ = found;
    shows_key_ = !found.empty() && !refused_with_it;
    // Setting a name selects the mechanism PLAIN.
    zmq_setsockopt(dealer_.handle(), ZMQ_PLAIN_USERNAME, shows_key_ ? "isocost" : nullptr,
                   shows_key_ ? std::strlen("isocost") : 0);
    zmq_setsockopt(dealer_.handle(), ZMQ_PLAIN_PASSWORD, shows_key_ ? job_key_.data() : nullptr,
                   shows_key_ ? job_key_.size() : 0);
  }
  refused_ = false;
  dealer_.connect(endpoint_);
}

// Connects again if the node refused the connection or has another key, as one that was started
// later or again has.
void ConnectionImpl::connect_again() {
  if (Clock::now() < next_try_) return;
  next_try_ = Clock::now() + kBetweenTries;
  const bool other_key = !has_curve_ && find_job_key(endpoint_).value_or("") != job_key_;
  if (!refused_ && !other_key) return;
  // Disconnecting fails if libzmq has given up the connection already; nothing needs to be done
  // then.
  zmq_disconnect(dealer_.handle(), endpoint_.c_str());
  connect();
}

void ConnectionImpl::send(const Message& message) {
  // Credit is valid only on the connection that it was granted on; other messages stay valid.
  if (!up_ && std::holds_alternative<Credit>(message)) return;
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = outgoing_.empty();
    outgoing_.push_back({encode(message), std::holds_alternative<Credit>(message)});
  }
  if (first) wake_.notify();
}

void ConnectionImpl::loop(const std::stop_token& stop) {
  name_thread("isocost-client");
  block_signals();
  while (!stop.stop_requested()) {
    std::vector<zmq::pollitem_t> items = {{dealer_.handle(), 0, ZMQ_POLLIN, 0},
                                          {events_.handle(), 0, ZMQ_POLLIN, 0},
                                          {nullptr, wake_.descriptor(), ZMQ_POLLIN, 0}};
    const int other = handlers_.descriptor();
    if (other >= 0) items.push_back({nullptr, other, ZMQ_POLLIN, 0});
    poll_items(items, std::min(kLongestPoll, std::chrono::milliseconds(heartbeat_ms_)));
    if (other >= 0 && items.back().revents != 0) handlers_.on_readable();
    wake_.drain();
    take_events();
    receive_all();
    if (!up_) connect_again();
    send_queued();
    keep_alive();
    handlers_.on_tick(clock_.now() - heard_);
  }
  send_queued();
  zmq_socket_monitor(dealer_.handle(), nullptr, 0);
  events_.close();
  dealer_.close();
}

void ConnectionImpl::take_events() {
  for (;;) {
    // First frame: a 16-bit event and its 32-bit value; second: the address.
    const std::vector<zmq::message_t> frames = receive_frames(events_);
    if (frames.empty() || frames.front().size() < sizeof(std::uint16_t)) return;
    std::uint16_t event = 0;
    std::memcpy(&event, frames.front().data(), sizeof(event));
    dial_.see(event);
    if ((event & kUpOrDown) == 0) continue;
    up_ = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    refused_ = !up_ && (refused_ || (event & kHandshakeFailed) != 0);
    if (up_) send_hello();
  }
}

void ConnectionImpl::receive_all() {
  for (;;) {
    const std::vector<zmq::message_t> frames = receive_frames(dealer_);
    if (frames.empty()) return;
    heard_ = clock_.now();
    auto message = decode(bytes_of(frames.front()));
    if (!message) {
      handlers_.on_error(std::move(message).error());
      continue;
    }
    std::vector<std::span<const std::byte>> rest;
    for (std::size_t i = 1; i < frames.size(); ++i) rest.push_back(bytes_of(frames[i]));
    handlers_.on_message(*std::move(message), rest);
  }
}

void ConnectionImpl::send_queued() {
  while (up_) {
    MessageToNode next;
    {
      const MutexLock lock(mutex_);
      if (outgoing_.empty()) return;
      next = std::move(outgoing_.front());
      outgoing_.pop_front();
    }
    send_now(next.bytes);
  }
}

void ConnectionImpl::keep_alive() {
  const auto now = Clock::now();
  const std::chrono::milliseconds interval(heartbeat_ms_.load());
  if (!up_) return;
  if (join_again_) send_hello();
  // The node's interval may be shorter than the one by which the next beat was set.
  next_beat_ = std::min(next_beat_, now + interval);
  if (now < next_beat_) return;
  next_beat_ = now + interval;
  send_now(encode(Heartbeat{}));
}

void ConnectionImpl::send_hello() {
  join_again_ = false;
  {
    // Credit granted before is void once the node has read this hello.
    const MutexLock lock(mutex_);
    std::erase_if(outgoing_, [](const MessageToNode& waiting) { return waiting.is_credit; });
  }
  send_now(encode(handlers_.hello()));
}

// Sends at once. A message into a connection that is lost, but not yet reported so, is lost with
// it.
void ConnectionImpl::send_now(std::span<const std::byte> bytes) {
  std::vector<zmq::message_t> frames;
  frames.push_back(copied_frame(bytes));
  static_cast<void>(send_frames(dealer_, frames));
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const ConnectionOptions& options) {
  try {
    auto connection = std::make_unique<ConnectionImpl>();
    ISOCOST_TRY(connection->prepare(options));
    return std::unique_ptr<Connection>(std::move(connection));
  } catch (const zmq::error_t& error) {
    return Error(ErrorCode::kInvalidArgument, options.endpoint + ": " + error.what());
  }
}

}  // namespace isocost
