#include "transport/connection.h"

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

#include "transport/wire.h"

namespace isocost {
namespace {

constexpr std::size_t kMessages = 200;
constexpr std::size_t kFrames = 20;

// Greeted once, sends all its messages and is gone when they have left.
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
    zmq::message_t greeting;
    if (!router_.recv(client) || !router_.recv(greeting)) return false;
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

// What came before the end is read to its end: not cut within a message, which libzmq takes for a
// bug of its own and aborts.
TEST(Connection, WhatCameOfANodeThatDiedIsRead) {
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
  ConnectionOptions options;
  const std::string endpoint = node.endpoint();
  options.endpoint = endpoint;
  auto connection = Connection::open(options, std::move(handlers));
  ASSERT_TRUE(connection.has_value()) << connection.error().to_string();
  ASSERT_TRUE(node.serve_and_go());
  EXPECT_TRUE(is_reconnected(endpoint));
  gone.set_value();
  for (std::size_t seen = messages; seen < kMessages; seen = messages) messages.wait(seen);
  EXPECT_EQ(frames, kMessages * kFrames);
  (*connection)->stop();
}

// Receives a client's hello, and sends it one frame in return.
bool answer(zmq::socket_t& router, std::span<const std::byte> frame) {
  zmq::message_t client;
  zmq::message_t greeting;
  if (!router.recv(client) || !router.recv(greeting)) return false;
  router.send(client, zmq::send_flags::sndmore);
  router.send(zmq::buffer(frame.data(), frame.size()), zmq::send_flags::none);
  return true;
}

TEST(Connection, AFrameOverTheLimitEndsTheConnectionUnread) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::rcvtimeo, 20'000);
  router.set(zmq::sockopt::linger, 0);
  router.bind("tcp://127.0.0.1:*");
  std::atomic<int> messages = 0;
  std::atomic<int> errors = 0;
  ConnectionHandlers handlers;
  handlers.hello = [] { return Hello{}; };
  handlers.on_message = [&](const Message&, std::span<const std::span<const std::byte>>) {
    messages += 1;
  };
  handlers.on_error = [&](const Error&) { errors += 1; };
  handlers.on_tick = [](std::chrono::nanoseconds) {};
  ConnectionOptions options;
  options.endpoint = router.get(zmq::sockopt::last_endpoint);
  options.max_frame_bytes = 1 << 20;
  auto connection = Connection::open(options, std::move(handlers));
  ASSERT_TRUE(connection.has_value()) << connection.error().to_string();
  ASSERT_TRUE(answer(router, std::vector<std::byte>((1 << 20) + 1)));
  // The client connects again. A hello of the connection that was cut may still be read here; its
  // answer goes nowhere.
  router.set(zmq::sockopt::rcvtimeo, 50);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (messages == 0 && std::chrono::steady_clock::now() < deadline) {
    answer(router, encode(Heartbeat{}));
  }
  EXPECT_GT(messages, 0);
  EXPECT_EQ(errors, 0) << "the frame was read";
  (*connection)->stop();
}

}  // namespace
}  // namespace isocost
