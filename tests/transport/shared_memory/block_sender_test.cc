// Both halves of delivery by shared memory, without the sockets of ZeroMQ between them.
#include "transport/shared_memory/block_sender.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/units.h"
#include "tests/support/reserve_from.h"
#include "transport/shared_memory/block_receiver.h"

namespace isocost {
namespace {

constexpr std::int64_t kBytes = 100'000;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

MicrobatchHeader header(std::uint32_t step, std::int64_t bytes = kBytes) {
  MicrobatchHeader header;
  header.position.step = step;
  header.samples = {{step, 1.0F, 1}};
  header.tensors = {{"vision.patches", DType::kUInt8, {1, bytes}}};
  header.rows = {1};
  return header;
}

// Every byte is the step's number.
Fragment fragment(std::uint32_t step, std::int64_t bytes = kBytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(static_cast<std::size_t>(bytes),
                                                                    static_cast<std::byte>(step));
  return {{0, step, 0}, 0, {{"vision.patches", {DType::kUInt8, {1, bytes}, owner->data(), owner}}}};
}

bool is_readable(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  return poll(&waiting, 1, /*timeout=*/0) == 1;
}

bool holds(const BlockReceiver::Delivered& block, std::uint32_t step) {
  return std::all_of(block.bytes.begin(), block.bytes.begin() + kBytes,
                     [&](std::byte byte) { return byte == static_cast<std::byte>(step); });
}

class BlockSenderTest : public testing::Test {
 protected:
  std::unique_ptr<BlockReceiver> attach(std::int32_t rank, std::uint64_t session) {
    auto receiver = BlockReceiver::attach(sender_->offer(rank, session)).value();
    sender_->serve();
    return receiver;
  }
  // Fills a block with a step's microbatch. Returns false if there is no block.
  bool send(std::uint32_t step, std::int64_t bytes = kBytes, std::int32_t rank = 0,
            std::uint64_t session = 1) {
    return sender_->begin(rank, header(step, bytes), session).has_value() &&
           sender_->add(rank, fragment(step, bytes), session);
  }
  // Sends a microbatch and receives it.
  BlockReceiver::Delivered pass(BlockReceiver& receiver, std::uint32_t step,
                                std::int64_t bytes = kBytes, std::uint64_t session = 1) {
    EXPECT_TRUE(send(step, bytes, 0, session));
    auto delivered = receiver.receive().value().value();
    EXPECT_EQ(delivered.position.step, step);
    EXPECT_EQ(delivered.offsets, std::vector<std::int64_t>{0});
    return delivered;
  }

  MemoryBudget budget_{kMiB};
  std::vector<std::string> log_;
  std::vector<LogLevel> levels_;
  std::unique_ptr<BlockSender> sender_ =
      BlockSender::create(
          reserve_from(budget_), [](std::int32_t rank) { return "worker " + std::to_string(rank); },
          [this](LogLevel level, std::string_view text) {
            log_.emplace_back(text);
            levels_.push_back(level);
          })
          .value();
};

TEST_F(BlockSenderTest, ABlockIsUsedAgainOnceItIsReleased) {
  const auto receiver = attach(0, 1);
  const auto descriptors = open_descriptors();
  const std::byte* address = nullptr;
  for (std::uint32_t step = 0; step < 50; ++step) {
    {
      const BlockReceiver::Delivered block = pass(*receiver, step);
      EXPECT_TRUE(holds(block, step));
      EXPECT_TRUE(step == 0 || block.bytes.data() == address) << "it is mapped once";
      address = block.bytes.data();
      std::fill_n(block.bytes.begin(), 10'000, std::byte{0xFF});  // a trainer may, in place
    }
    sender_->serve();
  }
  EXPECT_EQ(sender_->microbatches(), 50U);
  EXPECT_LT(budget_.in_use(), 2 * kBytes) << "there is one";
  EXPECT_EQ(open_descriptors(), descriptors) << "neither end keeps the block's";
}

TEST_F(BlockSenderTest, WhatIsKeptDoesNotChange) {
  const auto receiver = attach(0, 1);
  const BlockReceiver::Delivered kept = pass(*receiver, 200);
  for (std::uint32_t step = 0; step < 20; ++step) {
    EXPECT_TRUE(holds(pass(*receiver, step), step));
    sender_->serve();
  }
  EXPECT_TRUE(holds(kept, 200));
}

TEST_F(BlockSenderTest, WithoutMemoryTheMicrobatchGoesAnotherWayUntilThereIsSome) {
  const auto receiver = attach(0, 1);
  std::vector<BlockReceiver::Delivered> kept;
  for (std::uint32_t step = 0; send(step); ++step) {
    ASSERT_LT(step, 100U);
    kept.push_back(receiver->receive().value().value());
  }
  EXPECT_GT(kept.size(), 5U);
  EXPECT_LE(budget_.in_use(), budget_.limit());
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_NE(log_.front().find("memory budget"), std::string::npos) << log_.front();
  EXPECT_FALSE(send(200));
  EXPECT_EQ(log_.size(), 1U) << "the log is not filled with it";
  kept.pop_back();
  sender_->serve();
  EXPECT_TRUE(holds(pass(*receiver, 201), 201));
  kept.clear();
  sender_->serve();
  EXPECT_LT(budget_.in_use(), 4 * kBytes) << "what is not needed again is given back";
  EXPECT_FALSE(receiver->receive().value().has_value());
}

TEST_F(BlockSenderTest, SmallFreeBlocksMakeRoomForALargeOne) {
  const auto receiver = attach(0, 1);
  {
    const BlockReceiver::Delivered one = pass(*receiver, 1);
    const BlockReceiver::Delivered other = pass(*receiver, 2);
  }
  sender_->serve();
  constexpr std::int64_t kLarge = 900'000;
  EXPECT_TRUE(holds(pass(*receiver, 3, kLarge), 3));
  EXPECT_GE(budget_.in_use(), kLarge);
  EXPECT_FALSE(receiver->receive().value().has_value());
}

TEST_F(BlockSenderTest, EachReasonOfEachRankIsToldOnce) {
  auto first = attach(0, 1);
  const auto second = attach(1, 2);
  {
    const auto all = budget_.try_acquire(budget_.limit());
    for (std::uint32_t step = 0; step < 3; ++step) {
      EXPECT_FALSE(send(step));
      EXPECT_FALSE(send(step, kBytes, 1, 2));
    }
  }
  const auto warning = LogLevel::kWarning;  // a user can mend it
  EXPECT_EQ(levels_, (std::vector{warning, warning}));
  ASSERT_EQ(log_.size(), 2U);
  for (const std::size_t rank : {0, 1}) {
    EXPECT_TRUE(log_[rank].starts_with("worker " + std::to_string(rank) + ": ")) << log_[rank];
    EXPECT_NE(log_[rank].find("memory budget"), std::string::npos) << log_[rank];
  }
  first = nullptr;
  EXPECT_FALSE(send(3));
  EXPECT_FALSE(send(4));
  ASSERT_EQ(log_.size(), 3U);
  EXPECT_NE(log_[2].find("takes no further block"), std::string::npos) << log_[2];
  EXPECT_EQ(levels_[2], LogLevel::kInfo);
}

TEST_F(BlockSenderTest, AMicrobatchWithoutBytesNeedsNoBlock) {
  const auto receiver = attach(0, 1);
  EXPECT_FALSE(sender_->begin(0, header(1, 0), 1).has_value());
}

TEST_F(BlockSenderTest, WithoutAnAttachedClientThereIsNoBlock) {
  EXPECT_FALSE(send(1));
  const SharedMemoryOffer offer = sender_->offer(0, 1);
  sender_->serve();
  EXPECT_FALSE(send(1));
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(BlockSenderTest, AWrongTokenIsRefused) {
  SharedMemoryOffer offer = sender_->offer(0, 1);
  offer.token[15] ^= 1;
  const auto receiver = BlockReceiver::attach(offer).value();
  sender_->serve();
  EXPECT_FALSE(send(1));
  EXPECT_EQ(receiver->receive().error().code(), ErrorCode::kUnavailable) << "and told so";
}

TEST_F(BlockSenderTest, ATokenCountsOnce) {
  const SharedMemoryOffer offer = sender_->offer(0, 1);
  const auto receiver = BlockReceiver::attach(offer).value();
  const auto thief = BlockReceiver::attach(offer).value();
  sender_->serve();
  EXPECT_FALSE(receiver->receive().value().has_value());
  EXPECT_FALSE(thief->receive());
  EXPECT_TRUE(holds(pass(*receiver, 1), 1));
}

TEST_F(BlockSenderTest, ManyStrangersAreLimited) {
  const auto receiver = attach(0, 1);
  const auto descriptors = open_descriptors();
  const SharedMemoryOffer offer = sender_->offer(1, 2);
  std::vector<PacketSocket> strangers;
  for (int i = 0; i < 300; ++i) {
    auto stranger = PacketSocket::connect(offer.socket);
    if (stranger) strangers.push_back(*std::move(stranger));
    sender_->serve();
  }
  EXPECT_EQ(strangers.size(), 300U);
  EXPECT_LE(open_descriptors(), descriptors + 300 + 64);
  const auto is_open = [](PacketSocket& stranger) { return stranger.receive().has_value(); };
  EXPECT_FALSE(std::ranges::any_of(std::span(strangers).first(300 - 64), is_open))
      << "the oldest had the longest time";
  EXPECT_TRUE(std::ranges::all_of(std::span(strangers).last(64), is_open));
  EXPECT_TRUE(holds(pass(*receiver, 1), 1));
}

// One pass reads a part of them, and a packet of another client, too.
TEST_F(BlockSenderTest, AFloodOfPacketsLeavesOthersTheirTurn) {
  const SharedMemoryOffer offer = sender_->offer(1, 2);
  const PacketSocket flooding = PacketSocket::connect(offer.socket).value();
  ASSERT_TRUE(flooding.send(encode(AttachMemory{offer.token})));
  const auto receiver = attach(0, 1);
  pass(*receiver, 1);  // and released at once
  const std::int64_t used = budget_.in_use();
  int packets = 0;
  while (packets < 100'000 && flooding.send(encode(ReleaseBlocks{}))) ++packets;
  ASSERT_GT(packets, 50);
  sender_->serve();
  EXPECT_TRUE(is_readable(sender_->descriptor())) << "the rest waits";
  EXPECT_TRUE(holds(pass(*receiver, 2), 2));
  EXPECT_EQ(budget_.in_use(), used) << "the released block was used again";
  int passes = 1;
  for (; is_readable(sender_->descriptor()); ++passes) {
    ASSERT_LT(passes, packets);
    sender_->serve();
  }
  EXPECT_GT(passes, 3);
  EXPECT_TRUE(send(3, kBytes, 1, 2)) << "the client that flooded is still attached";
}

TEST_F(BlockSenderTest, AFloodOfConnectionsIsTakenInParts) {
  const SharedMemoryOffer offer = sender_->offer(0, 1);
  std::vector<PacketSocket> strangers;
  while (strangers.size() < 50) strangers.push_back(PacketSocket::connect(offer.socket).value());
  const auto receiver = BlockReceiver::attach(offer).value();
  sender_->serve();
  EXPECT_TRUE(is_readable(sender_->descriptor())) << "the rest waits";
  for (int passes = 1; is_readable(sender_->descriptor()); ++passes) {
    ASSERT_LT(passes, 50);
    sender_->serve();
  }
  EXPECT_TRUE(holds(pass(*receiver, 1), 1)) << "it had its turn";
}

TEST_F(BlockSenderTest, WithoutAFreeDescriptorItDoesNotStayReadable) {
  const SharedMemoryOffer offer = sender_->offer(0, 1);
  const auto receiver = BlockReceiver::attach(offer).value();
  ASSERT_TRUE(is_readable(sender_->descriptor()));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sender_->serve();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_FALSE(is_readable(sender_->descriptor()));
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_NE(log_.front().find("cannot accept"), std::string::npos);
  EXPECT_FALSE(send(1)) << "it has not attached";
}

TEST_F(BlockSenderTest, AClientThatIsGoneGivesItsBlocksBack) {
  const auto descriptors = open_descriptors();
  auto receiver = attach(0, 1);
  const BlockReceiver::Delivered kept = pass(*receiver, 7);
  ASSERT_TRUE(sender_->begin(0, header(8), 1).has_value());  // and is not filled
  EXPECT_GT(budget_.in_use(), 2 * kBytes);
  receiver = nullptr;  // as the kernel does when the process is killed
  sender_->serve();
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_TRUE(holds(kept, 7)) << "its memory is there until the client drops it";
}

TEST_F(BlockSenderTest, ANewSessionDoesNotWriteIntoBlocksOfTheLast) {
  const auto first = attach(0, 1);
  const BlockReceiver::Delivered kept = pass(*first, 7);
  ASSERT_TRUE(sender_->begin(0, header(8), 1).has_value());
  const auto second = attach(0, 2);
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_FALSE(sender_->add(0, fragment(8), 1)) << "the session is over";
  for (std::uint32_t step = 0; step < 5; ++step) {
    EXPECT_TRUE(holds(pass(*second, step, kBytes, 2), step));
    sender_->serve();
  }
  EXPECT_TRUE(holds(kept, 7));
}

TEST_F(BlockSenderTest, ClientsHaveBlocksOfTheirOwn) {
  const auto first = attach(0, 1);
  const auto second = attach(1, 2);
  ASSERT_TRUE(send(1, kBytes, 1, 2));
  EXPECT_FALSE(first->receive().value().has_value());
  EXPECT_TRUE(holds(second->receive().value().value(), 1));
}

// The client's part of the socket is full. It learns of it when it reads again, and joins again.
TEST_F(BlockSenderTest, AClientThatTakesNoPacketIsCutOff) {
  const SharedMemoryOffer offer = sender_->offer(0, 1);
  PacketSocket client = PacketSocket::connect(offer.socket).value();
  ASSERT_TRUE(client.send(encode(AttachMemory{offer.token})));
  sender_->serve();
  ASSERT_TRUE(send(0));
  const auto passed = decode(client.receive().value()->bytes).value();
  const std::uint64_t block = std::get<PassBlock>(passed).block;
  for (std::uint32_t step = 1; budget_.in_use() > 0; ++step) {
    ASSERT_LT(step, 100'000U);
    client.send(encode(ReleaseBlocks{{block}}));
    sender_->serve();
    send(step);
  }
  while (client.receive().value_or(std::nullopt)) {
  }
  EXPECT_EQ(client.receive().error().code(), ErrorCode::kUnavailable);
}

// A message that a client must not send ends its connection, and its blocks are dropped.
TEST_F(BlockSenderTest, HostileClientsAreCutOff) {
  const std::vector<std::function<std::vector<std::byte>(std::uint64_t block)>> lies = {
      [](std::uint64_t block) { return encode(ReleaseBlocks{{block, block}}); },
      [](std::uint64_t) { return encode(ReleaseBlocks{{12345}}); },
      [](std::uint64_t) { return encode(AttachMemory{}); },
      [](std::uint64_t) { return encode(Heartbeat{}); },
      [](std::uint64_t) { return std::vector<std::byte>(7); }};
  for (const auto& lie : lies) {
    const SharedMemoryOffer offer = sender_->offer(0, 1);
    PacketSocket client = PacketSocket::connect(offer.socket).value();
    ASSERT_TRUE(client.send(encode(AttachMemory{offer.token})));
    sender_->serve();
    ASSERT_TRUE(send(1));
    const auto passed = decode(client.receive().value()->bytes).value();
    ASSERT_TRUE(client.send(lie(std::get<PassBlock>(passed).block)));
    sender_->serve();
    EXPECT_EQ(budget_.in_use(), 0);
    EXPECT_FALSE(send(2));
  }
}

// A node under the test's hand.
class LyingSender : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = "isocost.test.liar." + std::to_string(getpid());
    PacketSocket listener = PacketSocket::listen(name).value();
    receiver_ = BlockReceiver::attach({name, {}}).value();
    node_ = listener.accept().value();
  }
  // Every byte of the block is `value`.
  void pass(std::uint64_t number, int value) {
    const MemoryBlock block = MemoryBlock::create(kBytes).value();
    std::fill(block.bytes().begin(), block.bytes().end(), static_cast<std::byte>(value));
    ASSERT_TRUE(node_->send(encode(PassBlock{number}), block.descriptor()));
  }
  void name(std::uint64_t number) {
    ASSERT_TRUE(node_->send(encode(MicrobatchInBlock{{0, 1, 0}, number, {0}})));
  }
  std::optional<PacketSocket> node_;
  std::unique_ptr<BlockReceiver> receiver_;
};

TEST_F(LyingSender, WhatIsNoBlockIsRefused) {
  name(1);
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kCorrupt) << "never passed";
  ASSERT_TRUE(node_->send(encode(PassBlock{2}), node_->descriptor()));
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kCorrupt) << "a socket";
  ASSERT_TRUE(node_->send(encode(PassBlock{3})));
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kUnavailable) << "no descriptor";
  ASSERT_TRUE(node_->send(encode(Heartbeat{})));
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kCorrupt);
  ASSERT_TRUE(node_->send(std::vector<std::byte>(3)));
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kCorrupt);
}

TEST_F(LyingSender, ABlockInUseIsNotTakenAgain) {
  pass(1, 4);
  name(1);
  name(1);
  const auto held = receiver_->receive().value();
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kCorrupt);
}

TEST_F(LyingSender, WhatWasPassedBeforeTheEndIsThere) {
  pass(1, 4);
  name(1);
  node_.reset();
  EXPECT_TRUE(holds(receiver_->receive().value().value(), 4));
  EXPECT_EQ(receiver_->receive().error().code(), ErrorCode::kUnavailable);
}

TEST_F(LyingSender, AFloodIsReadInParts) {
  int packets = 0;
  while (packets < 100 && node_->send(encode(DropBlock{1}))) ++packets;
  ASSERT_GT(packets, 50);
  EXPECT_FALSE(receiver_->receive().value().has_value());
  EXPECT_TRUE(is_readable(receiver_->descriptor())) << "the rest waits";
  pass(1, 4);
  name(1);
  std::optional<BlockReceiver::Delivered> delivered;
  for (int calls = 1; !delivered; ++calls) {
    ASSERT_LT(calls, packets);
    delivered = receiver_->receive().value();
  }
  EXPECT_TRUE(holds(*delivered, 4));
}

TEST_F(LyingSender, ADroppedBlockIsValidWhileItIsRead) {
  pass(1, 4);
  name(1);
  const auto held = receiver_->receive().value();
  ASSERT_TRUE(node_->send(encode(DropBlock{1})));
  EXPECT_FALSE(receiver_->receive().value().has_value());
  EXPECT_TRUE(holds(held.value(), 4));
  receiver_ = nullptr;
  EXPECT_TRUE(holds(held.value(), 4));
}

// A forked child releases its copies of everything, and must not release its parent's.
TEST_F(LyingSender, AChildDoesNotReleaseForItsParent) {
  pass(1, 4);
  name(1);
  auto held = receiver_->receive().value();
  ASSERT_TRUE(node_->receive().value().has_value()) << "it attaches";
  const pid_t child = fork();
  if (child == 0) {
    held->owner = nullptr;
    static_cast<void>(receiver_->receive().has_value());
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(node_->receive().value().has_value());
  held->owner = nullptr;
  EXPECT_TRUE(node_->receive().value().has_value());
}

// The node does not read for a while.
TEST_F(LyingSender, ReleasesThatTheNodeDoesNotTakeAreRepeated) {
  constexpr std::uint64_t kBlocks = 3000;
  ASSERT_EQ(std::get<AttachMemory>(decode(node_->receive().value()->bytes).value()).token,
            AttachMemory{}.token);
  for (std::uint64_t number = 1; number <= kBlocks; ++number) {
    pass(number, 4);
    name(number);
    ASSERT_TRUE(receiver_->receive().value().has_value());  // and released at once
  }
  std::vector<std::uint64_t> released;
  for (int tries = 0; tries < 100 && released.size() < kBlocks; ++tries) {
    while (const auto packet = node_->receive().value()) {
      const auto some = std::get<ReleaseBlocks>(decode(packet->bytes).value()).blocks;
      released.insert(released.end(), some.begin(), some.end());
    }
    ASSERT_FALSE(receiver_->receive().value().has_value());
  }
  std::ranges::sort(released);
  ASSERT_EQ(released.size(), kBlocks);
  for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_EQ(released[i], i + 1);
}

// A packet as tests/transport/shared_memory/shared_memory_fuzz.cc reads it.
std::string fuzz_packet(int kind, const Message& message) {
  const auto bytes = encode(message);
  const auto size = static_cast<std::uint16_t>(bytes.size());
  std::string packet(1, static_cast<char>(kind));
  packet.append(reinterpret_cast<const char*>(&size), sizeof(size));
  packet.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return packet;
}

TEST(SharedMemory, TheFuzzCorpusIsUpToDate) {
  const std::map<std::string, std::string> corpus = {
      {"client", fuzz_packet(0, ReleaseBlocks{{1}}) + fuzz_packet(0, ReleaseBlocks{{1, 2}}) +
                     fuzz_packet(0, AttachMemory{})},
      {"node", fuzz_packet(2, PassBlock{1}) + fuzz_packet(2, PassBlock{2}) +
                   fuzz_packet(1, MicrobatchInBlock{{0, 1, 0}, 1, {0}}) +
                   fuzz_packet(1, DropBlock{1}) + fuzz_packet(3, PassBlock{3})}};
  for (const auto& [name, expected] : corpus) {
    const std::filesystem::path file = std::filesystem::path(ISOCOST_SOURCE_DIR) /
                                       "tests/transport/shared_memory/corpus/shared_memory_fuzz" /
                                       name;
    if (std::getenv("ISOCOST_WRITE_CORPUS") != nullptr) {
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file, std::ios::binary) << expected;
    }
    std::ifstream in(file, std::ios::binary);
    const std::string read((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(read, expected) << file << ": run this test with ISOCOST_WRITE_CORPUS=1";
  }
}

}  // namespace
}  // namespace isocost
