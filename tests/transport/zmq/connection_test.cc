#include "transport/zmq/connection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "transport/wire/wire.h"

namespace isocost {
namespace {

constexpr std::size_t kMessages = 200;
constexpr std::size_t kFrames = 20;

// After one hello, sends all its messages and is gone when they have left.
class ShortLivedNode {
 public:
  ShortLivedNode() : router_(context_, zmq::socket_type::router) {
    router_.set(zmq::sockopt::sndhwm, 0);
    router_.set(zmq::sockopt::rcvtimeo, 20'000);
    router_.bind("tcp://127.0.0.1:*");
  }

  std::string endpoint() const { return router_.get(zmq::sockopt::last_endpoint); }

  bool serve_and_go() {
    zmq::message_t client;
    zmq::message_t hello;
    if (!router_.recv(client) || !router_.recv(hello)) return false;
    const std::vector<std::byte> first = encode(Heartbeat{});
    for (std::size_t i = 0; i < kMessages; ++i) {
      router_.send(zmq::buffer(client.data(), client.size()), zmq::send_flags::sndmore);
      for (std::size_t frame = 0; frame < kFrames; ++frame) {
        const bool last = frame + 1 == kFrames;
        router_.send(zmq::buffer(first), last ? zmq::send_flags::none : zmq::send_flags::sndmore);
      }
    }
    router_.close();
    context_.close();  // waits until all has left
    return true;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t router_;
};

// Blocks until the client, which has lost its node, connects to the endpoint again. Its socket's
// own thread has then seen the end of the connection.
bool is_reconnected(const std::string& endpoint) {
  zmq::context_t context;
  zmq::socket_t listener(context, zmq::socket_type::stream);
  listener.set(zmq::sockopt::rcvtimeo, 20'000);
  listener.set(zmq::sockopt::linger, 0);
  listener.bind(endpoint);
  zmq::message_t connected;
  return listener.recv(connected).has_value();
}

// Everything that arrived before the end is read: not cut within a message, which libzmq takes for
// a bug of its own and aborts.
TEST(Connection, ReadsWhatADeadNodeSent) {
  ShortLivedNode node;
  std::promise<void> gone;
  std::shared_future<void> is_gone = gone.get_future().share();
  std::atomic<std::size_t> messages = 0;
  std::atomic<std::size_t> frames = 0;
  ConnectionHandlers handlers;
  handlers.hello = [] { return Hello{}; };
  handlers.on_message = [&](const Message&, std::span<const std::span<const std::byte>> rest) {
    if (messages == 0) {
      // This thread has all but one message to read when the end comes.
      is_gone.wait_for(std::chrono::seconds(30));
    }
    frames += 1 + rest.size();
    messages += 1;
    messages.notify_all();
  };
  handlers.on_error = [](const Error& error) { ADD_FAILURE() << error.to_string(); };
  handlers.on_tick = [](std::chrono::nanoseconds) {};
  handlers.descriptor = [] { return -1; };
  handlers.on_readable = [] {};
  ConnectionOptions options;
  const std::string endpoint = node.endpoint();
  options.endpoint = endpoint;
  auto connection = Connection::open(options);
  ASSERT_TRUE(connection.has_value()) << connection.error().to_string();
  ASSERT_TRUE((*connection)->start(std::move(handlers)));
  ASSERT_TRUE(node.serve_and_go());
  EXPECT_TRUE(is_reconnected(endpoint));
  gone.set_value();
  for (std::size_t seen = messages; seen < kMessages; seen = messages) messages.wait(seen);
  EXPECT_EQ(frames, kMessages * kFrames);
  (*connection)->stop();
}

// Blocks until the node's side of a connection has ended.
bool is_disconnected(zmq::socket_t& events) {
  // First frame: a 16-bit event and its 32-bit value; second: the address.
  zmq::message_t event;
  zmq::message_t address;
  return events.recv(event).has_value() && events.recv(address).has_value();
}

// libzmq does not connect again to a peer that broke this rule: the client then hears nothing, and
// fails after the heartbeat time-out.
TEST(Connection, AFrameOverTheLimitEndsTheConnectionUnread) {
  constexpr std::size_t kLimit = 1 << 20;
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::rcvtimeo, 20'000);
  router.set(zmq::sockopt::linger, 0);
  ASSERT_EQ(zmq_socket_monitor(router.handle(), "inproc://events", ZMQ_EVENT_DISCONNECTED), 0);
  zmq::socket_t events(context, zmq::socket_type::pair);
  events.set(zmq::sockopt::rcvtimeo, 20'000);
  events.set(zmq::sockopt::linger, 0);
  events.connect("inproc://events");
  router.bind("tcp://127.0.0.1:*");
  std::atomic<int> messages = 0;
  std::atomic<int> errors = 0;
  ConnectionHandlers handlers;
  handlers.hello = [] { return Hello{}; };
  handlers.on_message = [&](const Message&, std::span<const std::span<const std::byte>>) {
    messages += 1;
  };
  handlers.on_error = [&](const Error&) {
    errors += 1;
    errors.notify_all();
  };
  handlers.on_tick = [](std::chrono::nanoseconds) {};
  handlers.descriptor = [] { return -1; };
  handlers.on_readable = [] {};
  ConnectionOptions options;
  options.endpoint = router.get(zmq::sockopt::last_endpoint);
  options.max_frame_bytes = kLimit;
  auto connection = Connection::open(options);
  ASSERT_TRUE(connection.has_value()) << connection.error().to_string();
  ASSERT_TRUE((*connection)->start(std::move(handlers)));
  zmq::message_t client;
  zmq::message_t hello;
  ASSERT_TRUE(router.recv(client).has_value() && router.recv(hello).has_value());
  const auto send = [&](std::size_t bytes) {
    router.send(zmq::buffer(client.data(), client.size()), zmq::send_flags::sndmore);
    router.send(zmq::message_t(bytes), zmq::send_flags::none);
  };
  send(kLimit);
  errors.wait(0);  // it is read, but is no message
  send(kLimit + 1);
  EXPECT_TRUE(is_disconnected(events));
  (*connection)->stop();
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(messages, 0);
}

}  // namespace
}  // namespace isocost
