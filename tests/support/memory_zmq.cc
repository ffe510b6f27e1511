// The part of libzmq's C interface that Isocost uses, in memory, for ThreadSanitizer. The Debian
// package's libzmq is not instrumented: TSan sees no order between a send and its receipt, and
// suppressing its reports would hide ours. A test that links this file calls these functions
// instead, because a program's own symbols come before a library's. Only the sender of a message
// and its receiver are ordered, as over a socket, so that races elsewhere stay visible.
//
// Supported: DEALER, ROUTER (mandatory), PAIR for monitor events, connecting before binding,
// connecting again, limits of a frame's size, receive time-outs. Not supported: CURVE, ZMTP's own
// heartbeats, high-water marks, bytes on a wire.

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tests/support/memory_relay.h"

namespace isocost {

struct MemoryRelay::State {
  std::string target;
  std::atomic<std::uint64_t> bytes_to_client = 0;
  std::atomic<std::uint64_t> cut_at = UINT64_MAX;
  Mutex mutex;
  bool held ISOCOST_GUARDED_BY(mutex) = false;
  std::vector<std::function<void()>> waiting ISOCOST_GUARDED_BY(mutex);
};

}  // namespace isocost

namespace {

using isocost::MemoryRelay;
using isocost::Mutex;
using isocost::MutexLock;
using Relay = std::shared_ptr<MemoryRelay::State>;

// The content of a zmq_msg_t. An empty frame has no bytes.
struct Frame {
  std::shared_ptr<void> bytes;
  std::size_t size = 0;
  bool more = false;
};
static_assert(sizeof(Frame) <= sizeof(zmq_msg_t) && alignof(Frame) <= alignof(zmq_msg_t));

using Message = std::vector<Frame>;

Frame& frame_of(zmq_msg_t* message) { return *std::launder(reinterpret_cast<Frame*>(message)); }
const Frame& frame_of(const zmq_msg_t* message) {
  return *std::launder(reinterpret_cast<const Frame*>(message));
}

Frame copied(const void* data, std::size_t size) {
  Frame frame;
  frame.bytes = std::shared_ptr<void>(std::malloc(size == 0 ? 1 : size), std::free);
  frame.size = size;
  if (size > 0 && data != nullptr) std::memcpy(frame.bytes.get(), data, size);
  return frame;
}

std::string text_of(const Frame& frame) {
  return {static_cast<const char*>(frame.bytes.get()), frame.size};
}

int failed(int error) {
  errno = error;
  return -1;
}

// The messages that others sent to a socket. The descriptor is readable while one waits.
// Thread-safe.
class Inbox {
 public:
  Inbox() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Inbox() { close(descriptor_); }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void push(Message message) {
    const MutexLock lock(mutex_);
    messages_.push_back(std::move(message));
    eventfd_write(descriptor_, 1);
  }

  std::optional<Message> pop() {
    const MutexLock lock(mutex_);
    if (messages_.empty()) return std::nullopt;
    Message message = std::move(messages_.front());
    messages_.pop_front();
    eventfd_t ignored = 0;
    if (messages_.empty()) eventfd_read(descriptor_, &ignored);
    return message;
  }

  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
  Mutex mutex_;
  std::deque<Message> messages_ ISOCOST_GUARDED_BY(mutex_);
};

// The target of a socket's monitor events.
struct Monitor {
  std::string address;
  int events = 0;
  std::shared_ptr<Inbox> reader;  // empty until a PAIR connects
};

struct Socket {
  Socket(void* its_context, int its_type) : context(its_context), type(its_type) {}

  void* const context;
  const int type;
  const std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  // Used by the thread that uses the socket:
  Message incoming;  // frames of a message that was received in part, last first
  Message outgoing;  // frames of a message that is sent in part
  int receive_timeout_ms = -1;

  Mutex mutex;
  std::int64_t largest_frame ISOCOST_GUARDED_BY(mutex) = -1;
  std::string endpoint ISOCOST_GUARDED_BY(mutex);
  Monitor monitor ISOCOST_GUARDED_BY(mutex);
  // Peers: a DEALER has one without a name, a ROUTER has them by routing id.
  std::map<std::string, std::weak_ptr<Socket>> peers ISOCOST_GUARDED_BY(mutex);
  std::deque<Message> unsent ISOCOST_GUARDED_BY(mutex);  // a DEALER's, while it has no peer
  std::string routing_id ISOCOST_GUARDED_BY(mutex);      // a DEALER's, at its peer
  Relay relay ISOCOST_GUARDED_BY(mutex);                 // a DEALER's, if it connected to one

  void tell(int event) {
    const MutexLock lock(mutex);
    if (monitor.reader == nullptr || (monitor.events & event) == 0) return;
    std::array<std::byte, 6> head{};
    const auto number = static_cast<std::uint16_t>(event);
    std::memcpy(head.data(), &number, sizeof(number));
    Message message = {copied(head.data(), head.size()), copied(endpoint.data(), endpoint.size())};
    message.front().more = true;
    monitor.reader->push(std::move(message));
  }
};

using SocketPtr = std::shared_ptr<Socket>;

// Which sockets there are and who is bound where. Held while a connection is made or ends, never
// while a message is sent or received.
struct Hub {
  Mutex mutex;
  std::map<void*, SocketPtr> sockets ISOCOST_GUARDED_BY(mutex);
  std::map<std::string, SocketPtr> bound ISOCOST_GUARDED_BY(mutex);
  std::map<std::string, std::set<SocketPtr>> connecting ISOCOST_GUARDED_BY(mutex);
  std::map<std::string, Relay> relays ISOCOST_GUARDED_BY(mutex);
  std::uint32_t last_id ISOCOST_GUARDED_BY(mutex) = 0;
  int last_port ISOCOST_GUARDED_BY(mutex) = 20'000;
};

Hub& hub() {
  static Hub one;
  return one;
}

Socket& socket_of(void* handle) { return *static_cast<Socket*>(handle); }

std::string place_of(const Socket& socket, const std::string& endpoint) {
  if (endpoint.starts_with("inproc://")) {
    return std::to_string(reinterpret_cast<std::uintptr_t>(socket.context)) + endpoint;
  }
  if (endpoint.starts_with("tcp://")) return endpoint.substr(endpoint.rfind(':'));
  return endpoint;
}

void deliver_to(Socket& router, const std::string& id, Message message) {
  Frame sender = copied(id.data(), id.size());
  sender.more = true;
  message.insert(message.begin(), std::move(sender));
  router.inbox->push(std::move(message));
}

void join(const SocketPtr& dealer, const SocketPtr& router) ISOCOST_REQUIRES(hub().mutex) {
  const std::uint32_t number = ++hub().last_id;
  std::string id(5, '\0');
  std::memcpy(id.data() + 1, &number, sizeof(number));
  {
    const MutexLock lock(router->mutex);
    router->peers[id] = dealer;
  }
  router->tell(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  {
    const MutexLock lock(dealer->mutex);
    dealer->peers[""] = router;
    dealer->routing_id = id;
    for (Message& message : dealer->unsent) deliver_to(*router, id, std::move(message));
    dealer->unsent.clear();
  }
  dealer->tell(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
}

void part(const SocketPtr& dealer, const SocketPtr& router) ISOCOST_REQUIRES(hub().mutex) {
  std::string id;
  {
    const MutexLock lock(dealer->mutex);
    if (dealer->peers.erase("") == 0) return;
    id = dealer->routing_id;
  }
  {
    const MutexLock lock(router->mutex);
    router->peers.erase(id);
  }
  router->tell(ZMQ_EVENT_DISCONNECTED);
  dealer->tell(ZMQ_EVENT_DISCONNECTED);
}

bool is_too_large(Socket& receiver, const Message& message) {
  const MutexLock lock(receiver.mutex);
  if (receiver.largest_frame < 0) return false;
  for (const Frame& frame : message) {
    if (frame.size > static_cast<std::size_t>(receiver.largest_frame)) return true;
  }
  return false;
}

// A DEALER whose limit its peer broke does not connect again, as in libzmq; one that broke its
// peer's does.
void cut(const SocketPtr& dealer, const SocketPtr& router, bool for_good) {
  const MutexLock lock(hub().mutex);
  part(dealer, router);
  if (!for_good) join(dealer, router);
  if (!for_good) return;
  for (auto& [place, dealers] : hub().connecting) dealers.erase(dealer);
}

SocketPtr shared(Socket& socket) {
  const MutexLock lock(hub().mutex);
  return hub().sockets.at(&socket);
}

bool is_held(const Relay& relay, const SocketPtr& router, const std::string& id,
             const Message& message) {
  if (relay == nullptr) return false;
  const MutexLock lock(relay->mutex);
  if (relay->held) {
    relay->waiting.emplace_back([router, id, message] { deliver_to(*router, id, message); });
  }
  return relay->held;
}

void send_from_dealer(Socket& dealer, Message message) {
  SocketPtr router;
  std::string id;
  Relay relay;
  {
    const MutexLock lock(dealer.mutex);
    relay = dealer.relay;
    if (!dealer.peers.empty()) router = dealer.peers.begin()->second.lock();
    if (router == nullptr) {
      dealer.unsent.push_back(std::move(message));
      return;
    }
    id = dealer.routing_id;
  }
  if (is_too_large(*router, message)) {
    cut(shared(dealer), router, false);
  } else if (!is_held(relay, router, id, message)) {
    deliver_to(*router, id, std::move(message));
  }
}

SocketPtr peer_of(Socket& router, const Frame& address) {
  const MutexLock lock(router.mutex);
  const auto found = router.peers.find(text_of(address));
  return found == router.peers.end() ? nullptr : found->second.lock();
}

// Whether a relay's connections are cut within this message.
bool is_lost(Socket& dealer, const Message& message) {
  const MutexLock lock(dealer.mutex);
  if (dealer.relay == nullptr) return false;
  for (const Frame& frame : message) dealer.relay->bytes_to_client += frame.size;
  if (dealer.relay->bytes_to_client < dealer.relay->cut_at) return false;
  dealer.relay->cut_at = UINT64_MAX;
  return true;
}

void send_from_router(Socket& router, Message message) {
  const SocketPtr dealer = peer_of(router, message.front());
  if (dealer == nullptr) return;  // it left while the message was sent
  message.erase(message.begin());
  if (is_too_large(*dealer, message)) {
    cut(dealer, shared(router), true);
  } else if (is_lost(*dealer, message)) {
    cut(dealer, shared(router), false);
  } else {
    dealer->inbox->push(std::move(message));
  }
}

int send_frame(Socket& socket, Frame frame, int flags) {
  if (socket.type == ZMQ_ROUTER && socket.outgoing.empty() && peer_of(socket, frame) == nullptr) {
    return failed(EHOSTUNREACH);
  }
  const int size = static_cast<int>(frame.size);
  frame.more = (flags & ZMQ_SNDMORE) != 0;
  const bool last = !frame.more;
  socket.outgoing.push_back(std::move(frame));
  if (!last) return size;
  Message message = std::exchange(socket.outgoing, {});
  if (socket.type == ZMQ_ROUTER) {
    send_from_router(socket, std::move(message));
  } else {
    send_from_dealer(socket, std::move(message));
  }
  return size;
}

// Returns whether a frame is ready in `incoming`.
bool take_next(Socket& socket) {
  if (!socket.incoming.empty()) return true;
  auto message = socket.inbox->pop();
  if (!message) return false;
  socket.incoming.assign(std::make_move_iterator(message->rbegin()),
                         std::make_move_iterator(message->rend()));
  return true;
}

void leave(const SocketPtr& socket) ISOCOST_REQUIRES(hub().mutex) {
  for (auto& [place, dealers] : hub().connecting) dealers.erase(socket);
  std::erase_if(hub().bound, [&](const auto& entry) { return entry.second == socket; });
  std::vector<SocketPtr> peers;
  {
    const MutexLock lock(socket->mutex);
    for (const auto& [id, peer] : socket->peers) {
      if (SocketPtr there = peer.lock()) peers.push_back(std::move(there));
    }
  }
  for (const SocketPtr& peer : peers) {
    if (socket->type == ZMQ_ROUTER) {
      part(peer, socket);
    } else {
      part(socket, peer);
    }
  }
}

int connect_to_monitor(const SocketPtr& pair, const std::string& address)
    ISOCOST_REQUIRES(hub().mutex) {
  for (const auto& [handle, socket] : hub().sockets) {
    const MutexLock lock(socket->mutex);
    if (socket->context != pair->context || socket->monitor.address != address) continue;
    socket->monitor.reader = pair->inbox;
    return 0;
  }
  return failed(ECONNREFUSED);
}

// Poll descriptors of ZeroMQ's sockets and of the system alike.
pollfd descriptor_of(const zmq_pollitem_t& item) {
  const int descriptor =
      item.socket == nullptr ? item.fd : socket_of(item.socket).inbox->descriptor();
  return {descriptor, POLLIN, 0};
}

int mark_ready(std::vector<pollfd>& descriptors, zmq_pollitem_t* items) {
  int ready = 0;
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const bool within = items[i].socket != nullptr && !socket_of(items[i].socket).incoming.empty();
    const bool is_ready = within || (descriptors[i].revents & POLLIN) != 0;
    items[i].revents = is_ready ? ZMQ_POLLIN : 0;
    ready += is_ready ? 1 : 0;
  }
  return ready;
}

}  // namespace

extern "C" {

void* zmq_ctx_new() { return new char; }
int zmq_ctx_set(void* /*context*/, int /*option*/, int /*value*/) { return 0; }
int zmq_ctx_term(void* context) {
  delete static_cast<char*>(context);
  return 0;
}
int zmq_ctx_shutdown(void* /*context*/) { return 0; }

void* zmq_socket(void* context, int type) {
  const auto socket = std::make_shared<Socket>(context, type);
  const MutexLock lock(hub().mutex);
  hub().sockets[socket.get()] = socket;
  return socket.get();
}

int zmq_close(void* handle) {
  const SocketPtr socket = shared(socket_of(handle));
  const MutexLock lock(hub().mutex);
  leave(socket);
  hub().sockets.erase(handle);
  return 0;
}

int zmq_setsockopt(void* handle, int option, const void* value, std::size_t /*size*/) {
  Socket& socket = socket_of(handle);
  if (option == ZMQ_RCVTIMEO) std::memcpy(&socket.receive_timeout_ms, value, sizeof(int));
  if (option == ZMQ_MAXMSGSIZE) {
    const MutexLock lock(socket.mutex);
    std::memcpy(&socket.largest_frame, value, sizeof(std::int64_t));
  }
  return 0;
}

int zmq_getsockopt(void* handle, int option, void* value, std::size_t* size) {
  if (option != ZMQ_LAST_ENDPOINT) return failed(EINVAL);
  Socket& socket = socket_of(handle);
  const MutexLock lock(socket.mutex);
  if (*size <= socket.endpoint.size()) return failed(EINVAL);
  std::memcpy(value, socket.endpoint.c_str(), socket.endpoint.size() + 1);
  *size = socket.endpoint.size() + 1;
  return 0;
}

int zmq_bind(void* handle, const char* address) {
  const SocketPtr router = shared(socket_of(handle));
  const MutexLock lock(hub().mutex);
  std::string endpoint = address;
  if (endpoint.ends_with(":*")) {
    endpoint.replace(endpoint.size() - 1, 1, std::to_string(++hub().last_port));
  }
  const std::string place = place_of(*router, endpoint);
  if (!hub().bound.emplace(place, router).second) return failed(EADDRINUSE);
  {
    const MutexLock own(router->mutex);
    router->endpoint = endpoint;
  }
  for (const SocketPtr& dealer : hub().connecting[place]) join(dealer, router);
  return 0;
}

int zmq_connect(void* handle, const char* address) {
  const SocketPtr socket = shared(socket_of(handle));
  const MutexLock lock(hub().mutex);
  if (socket->type == ZMQ_PAIR) return connect_to_monitor(socket, address);
  std::string place = place_of(*socket, address);
  const auto relay = hub().relays.find(place);
  {
    const MutexLock own(socket->mutex);
    socket->endpoint = address;
    if (relay != hub().relays.end()) socket->relay = relay->second;
  }
  if (relay != hub().relays.end()) place = relay->second->target;
  hub().connecting[place].insert(socket);
  const auto router = hub().bound.find(place);
  if (router != hub().bound.end()) join(socket, router->second);
  return 0;
}

// A client has one endpoint, so that to leave it is to leave all.
int zmq_disconnect(void* handle, const char* /*address*/) {
  const SocketPtr socket = shared(socket_of(handle));
  const MutexLock lock(hub().mutex);
  leave(socket);
  return 0;
}

int zmq_socket_monitor(void* handle, const char* address, int events) {
  Socket& socket = socket_of(handle);
  const MutexLock lock(socket.mutex);
  socket.monitor = {address == nullptr ? "" : address, events, nullptr};
  return 0;
}

int zmq_poll(zmq_pollitem_t* items, int count, long timeout) {
  std::vector<pollfd> descriptors;
  bool ready = false;
  for (int i = 0; i < count; ++i) {
    descriptors.push_back(descriptor_of(items[i]));
    ready = ready || (items[i].socket != nullptr && !socket_of(items[i].socket).incoming.empty());
  }
  if (poll(descriptors.data(), descriptors.size(), ready ? 0 : static_cast<int>(timeout)) < 0) {
    return -1;
  }
  return mark_ready(descriptors, items);
}

int zmq_msg_init(zmq_msg_t* message) {
  new (message) Frame();
  return 0;
}

int zmq_msg_init_size(zmq_msg_t* message, std::size_t size) {
  new (message) Frame(copied(nullptr, size));
  return 0;
}

int zmq_msg_init_data(zmq_msg_t* message, void* data, std::size_t size, zmq_free_fn* release,
                      void* hint) {
  auto* frame = new (message) Frame();
  frame->size = size;
  frame->bytes = std::shared_ptr<void>(data, [release, hint](void* bytes) {
    if (release != nullptr) release(bytes, hint);
  });
  return 0;
}

int zmq_msg_close(zmq_msg_t* message) {
  frame_of(message) = {};
  return 0;
}

int zmq_msg_move(zmq_msg_t* to, zmq_msg_t* from) {
  frame_of(to) = std::exchange(frame_of(from), {});
  return 0;
}

int zmq_msg_copy(zmq_msg_t* to, zmq_msg_t* from) {
  frame_of(to) = frame_of(from);
  return 0;
}

void* zmq_msg_data(zmq_msg_t* message) { return frame_of(message).bytes.get(); }
std::size_t zmq_msg_size(const zmq_msg_t* message) { return frame_of(message).size; }
int zmq_msg_more(const zmq_msg_t* message) { return frame_of(message).more ? 1 : 0; }

int zmq_msg_send(zmq_msg_t* message, void* handle, int flags) {
  const int sent = send_frame(socket_of(handle), frame_of(message), flags);
  if (sent >= 0) frame_of(message) = {};
  return sent;
}

int zmq_send(void* handle, const void* data, std::size_t size, int flags) {
  return send_frame(socket_of(handle), copied(data, size), flags);
}

int zmq_msg_recv(zmq_msg_t* message, void* handle, int flags) {
  Socket& socket = socket_of(handle);
  if (!take_next(socket)) {
    if ((flags & ZMQ_DONTWAIT) != 0) return failed(EAGAIN);
    pollfd item = {socket.inbox->descriptor(), POLLIN, 0};
    if (poll(&item, 1, socket.receive_timeout_ms) < 0) return -1;
    if (!take_next(socket)) return failed(EAGAIN);
  }
  frame_of(message) = std::move(socket.incoming.back());
  socket.incoming.pop_back();
  return static_cast<int>(frame_of(message).size);
}

}  // extern "C"

namespace isocost {

MemoryRelay::MemoryRelay(std::uint16_t port) : state_(std::make_shared<State>()) {
  state_->target = ":" + std::to_string(port);
  const MutexLock lock(hub().mutex);
  port_ = static_cast<std::uint16_t>(++hub().last_port);
  hub().relays[":" + std::to_string(port_)] = state_;
}

MemoryRelay::~MemoryRelay() {
  cut();
  const MutexLock lock(hub().mutex);
  hub().relays.erase(":" + std::to_string(port_));
}

void MemoryRelay::cut() {
  const MutexLock lock(hub().mutex);
  const auto router = hub().bound.find(state_->target);
  if (router == hub().bound.end()) return;
  for (const SocketPtr& dealer : hub().connecting[state_->target]) {
    {
      const MutexLock own(dealer->mutex);
      if (dealer->relay != state_) continue;
    }
    part(dealer, router->second);
    join(dealer, router->second);
  }
}

void MemoryRelay::cut_after(std::uint64_t bytes) {
  state_->cut_at = state_->bytes_to_client + bytes;
}

void MemoryRelay::hold_to_node(bool held) {
  std::vector<std::function<void()>> waiting;
  {
    const MutexLock lock(state_->mutex);
    state_->held = held;
    waiting.swap(state_->waiting);
  }
  for (const auto& deliver : waiting) deliver();
}

}  // namespace isocost
