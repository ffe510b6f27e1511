#include "transport/shared_memory/packet_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace isocost {
namespace {

// Both ends of a connection.
struct Ends {
  PacketSocket node;
  PacketSocket client;
};

Ends connected(const std::string& name) {
  PacketSocket listener = PacketSocket::listen(name).value();
  PacketSocket client = PacketSocket::connect(name).value();
  return {listener.accept().value().value(), std::move(client)};
}

std::string unique_name(const char* test) {
  return std::string("isocost.test.") + test + "." + std::to_string(getpid());
}

std::vector<std::byte> bytes(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

TEST(PacketSocket, KeepsPacketsWholeAndInOrder) {
  Ends ends = connected(unique_name("order"));
  ASSERT_TRUE(ends.client.send(bytes(3, 1)));
  ASSERT_TRUE(ends.client.send(bytes(PacketSocket::kMaxPacketBytes, 2)));
  EXPECT_EQ(ends.node.receive().value()->bytes, bytes(3, 1));
  EXPECT_EQ(ends.node.receive().value()->bytes, bytes(PacketSocket::kMaxPacketBytes, 2));
  EXPECT_FALSE(ends.node.receive().value().has_value()) << "nothing more";
}

TEST(PacketSocket, PassesADescriptor) {
  Ends ends = connected(unique_name("descriptor"));
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const FileDescriptor reading(pipe_ends[0]);
  {
    const FileDescriptor writing(pipe_ends[1]);
    ASSERT_TRUE(ends.node.send(bytes(1, 1), writing.get()));
  }
  const auto packet = ends.client.receive().value();
  ASSERT_TRUE(packet->descriptor.is_open());
  ASSERT_EQ(write(packet->descriptor.get(), "x", 1), 1);
  char read_back = 0;
  ASSERT_EQ(read(reading.get(), &read_back, 1), 1);
  EXPECT_EQ(read_back, 'x');
  EXPECT_EQ(fcntl(packet->descriptor.get(), F_GETFD), FD_CLOEXEC) << "not for programs it starts";
}

TEST(PacketSocket, WhatWasSentBeforeTheEndIsRead) {
  std::optional<Ends> ends = connected(unique_name("end"));
  PacketSocket client = std::move(ends->client);
  ASSERT_TRUE(ends->node.send(bytes(1, 1)));
  ASSERT_TRUE(client.send(bytes(1, 1)));  // is never read
  ends.reset();
  EXPECT_EQ(client.receive().value()->bytes, bytes(1, 1));
  EXPECT_EQ(client.receive().error().code(), ErrorCode::kUnavailable);
  EXPECT_FALSE(client.send(bytes(1, 1)));
}

TEST(PacketSocket, ASenderDoesNotWait) {
  Ends ends = connected(unique_name("full"));
  int sent = 0;
  while (sent < 1'000'000 && ends.node.send(bytes(1000, 1))) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 1'000'000);
  while (ends.client.receive().value()) --sent;
  EXPECT_EQ(sent, 0) << "nothing of what was refused";
}

TEST(PacketSocket, NothingListensUnderAnUnknownName) {
  EXPECT_EQ(PacketSocket::connect(unique_name("nobody")).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace isocost
