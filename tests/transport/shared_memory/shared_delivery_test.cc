// Delivery by shared memory from a server to clients, on one host.

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/units.h"
#include "tests/support/loopback_options.h"
#include "tests/trainer_adapter/scripted_node.h"
#include "trainer_adapter/client.h"
#include "transport/shared_memory/memory_block.h"
#include "transport/shared_memory/packet_socket.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kSampleBytes = 50'000;
constexpr std::int64_t kMicrobatchBytes = 2 * kSampleBytes;

std::unique_ptr<Client> connect(const std::string& endpoint, std::int32_t rank = 0) {
  return Client::connect(loopback_client(endpoint, rank)).value();
}

SharedTensor patches(const Microbatch& microbatch) { return microbatch["vision.patches"]; }

bool has_content(const Microbatch& microbatch) {
  const auto all = patches(microbatch).as<std::uint8_t>();
  for (std::size_t i = 0; i < microbatch.header.samples.size(); ++i) {
    const auto expected = ScriptedNode::content(microbatch.header.samples[i].id, kSampleBytes);
    const auto rows = all.subspan(i * expected.size(), expected.size());
    if (!std::equal(rows.begin(), rows.end(), expected.begin())) return false;
  }
  return true;
}

// Reads to the end of the epoch; the number of microbatches, each with the right bytes.
std::uint32_t read_all(Client& client) {
  for (std::uint32_t count = 0;; ++count) {
    const auto next = client.next({});
    EXPECT_TRUE(next.has_value()) << next.error().message();
    if (!next || !next->has_value()) return count;
    EXPECT_TRUE(has_content(**next));
  }
}

bool soon(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(SharedDelivery, TensorsAreEqualAndNotCopied) {
  MemoryBudget budget(64 * kMiB);
  for (const bool shared : {false, true}) {
    ScriptedNode node(loopback_server(shared ? &budget : nullptr), 8, kSampleBytes, /*ranks=*/3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const auto client = connect(node.endpoint(), rank);
      for (std::uint32_t step = 0; step < 8; ++step) {
        const Microbatch microbatch = client->next({}).value().value();
        EXPECT_TRUE(has_content(microbatch));
        EXPECT_EQ(client->pool().owns(patches(microbatch).data), !shared);
      }
      EXPECT_FALSE(client->next({}).value().has_value());
      EXPECT_EQ(client->bytes_copied(), shared ? 0 : 8 * kMicrobatchBytes);
    }
    EXPECT_EQ(node.server().microbatches_shared(), shared ? 24U : 0U);
  }
}

TEST(SharedDelivery, AKeptTensorDoesNotChangeWhileOthersPass) {
  MemoryBudget budget(64 * kMiB);
  ScriptedNode node(loopback_server(&budget), 21, kSampleBytes);
  const auto client = connect(node.endpoint());
  const Microbatch kept = client->next({}).value().value();
  EXPECT_EQ(read_all(*client), 20U);
  EXPECT_TRUE(has_content(kept));
  EXPECT_EQ(client->bytes_copied(), 0);
  EXPECT_LT(budget.in_use(), 8 * kMicrobatchBytes) << "blocks are used again";
}

TEST(SharedDelivery, ATensorOutlivesItsClientAndNode) {
  MemoryBudget budget(64 * kMiB);
  auto node = std::make_unique<ScriptedNode>(loopback_server(&budget), 2, kSampleBytes);
  auto client = connect(node->endpoint());
  const Microbatch kept = client->next({}).value().value();
  client = nullptr;
  ASSERT_TRUE(node->wait([](const auto& counts) { return counts.finished.contains(0); }));
  EXPECT_EQ(budget.in_use(), 0) << "from then on it is the trainer's own";
  node = nullptr;
  EXPECT_TRUE(has_content(kept));
}

TEST(SharedDelivery, WhatATrainerWritesInPlaceIsNotInTheNextMicrobatch) {
  MemoryBudget budget(64 * kMiB);
  ScriptedNode node(loopback_server(&budget), 30, kSampleBytes);
  const auto client = connect(node.endpoint());
  for (std::uint32_t step = 0; step < 30; ++step) {
    const Microbatch microbatch = client->next({}).value().value();
    EXPECT_TRUE(has_content(microbatch)) << step;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): as a framework does
    auto* own = const_cast<std::byte*>(patches(microbatch).data);
    std::fill_n(own + step * 1000, 30'000, std::byte{0xAB});
    EXPECT_EQ(patches(microbatch).data[step * 1000], std::byte{0xAB});
  }
  EXPECT_EQ(client->bytes_copied(), 0);
}

// A script keeps microbatches until no memory is left: the next ones are copied, until it drops
// some.
TEST(SharedDelivery, WithoutMemoryMicrobatchesAreCopiedUntilThereIsSome) {
  MemoryBudget budget(10 * kMicrobatchBytes);
  ScriptedNode node(loopback_server(&budget), 60, kSampleBytes);
  const auto client = connect(node.endpoint());
  std::vector<Microbatch> kept;
  while (kept.size() < 30) kept.push_back(client->next({}).value().value());
  EXPECT_GT(client->bytes_copied(), 15 * kMicrobatchBytes);
  EXPECT_LE(budget.in_use(), budget.limit());
  for (const Microbatch& microbatch : kept) EXPECT_TRUE(has_content(microbatch));
  kept.clear();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client->next({}).value().has_value());
  const std::int64_t copied = client->bytes_copied();
  EXPECT_EQ(read_all(*client), 25U);
  EXPECT_EQ(client->bytes_copied(), copied);
}

// The log of a client.
class Logged {
 public:
  LogSink sink() {
    return [this](LogLevel, std::string_view text) {
      const MutexLock lock(mutex_);
      lines_.emplace_back(text);
    };
  }
  std::vector<std::string> lines() {
    const MutexLock lock(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ISOCOST_GUARDED_BY(mutex_);
};

void expect_reason(const std::vector<std::string>& lines, const std::string& reason) {
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines.front().find("over the socket"), std::string::npos) << lines.front();
  EXPECT_NE(lines.front().find(reason), std::string::npos) << lines.front();
}

// The node's memory is unreachable on another host, or in a container with a network of its own.
TEST(SharedDelivery, AClientThatDoesNotReachTheNodesMemoryReceivesCopies) {
  ScriptedNode node(loopback_server(nullptr), 5, kSampleBytes, 1, {"isocost.test.nobody", {}});
  Logged log;
  ClientOptions options = loopback_client(node.endpoint());
  options.log = log.sink();
  const auto client = Client::connect(options).value();
  EXPECT_EQ(read_all(*client), 5U);
  EXPECT_EQ(client->bytes_copied(), 5 * kMicrobatchBytes);
  expect_reason(log.lines(), "cannot connect");
}

// A socket for shared memory under the test's hand, beside a node that shares none.
class FailingMemory : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = "isocost.test.memory." + std::to_string(getpid());
    listener_.push_back(PacketSocket::listen(name).value());
    node_ = std::make_unique<ScriptedNode>(loopback_server(nullptr), 5, kSampleBytes, 1,
                                           SharedMemoryOffer{name, {}});
    ClientOptions options = loopback_client(node_->endpoint());
    options.log = log_.sink();
    client_ = Client::connect(options).value();
  }
  PacketSocket accept() {
    std::optional<PacketSocket> memory;
    EXPECT_TRUE(soon([&] {
      memory = listener_.front().accept().value();
      return memory.has_value();
    }));
    return std::move(memory).value();
  }
  // Lets the client attach, and fails it, until it does without.
  void expect_copies(const std::function<void(const PacketSocket&)>& fail,
                     const std::string& reason) {
    std::vector<PacketSocket> attached;
    EXPECT_TRUE(soon([&] {
      if (auto memory = listener_.front().accept().value()) {
        EXPECT_TRUE(soon([&] { return memory->receive().value().has_value(); })) << "it attaches";
        fail(*memory);
        attached.push_back(*std::move(memory));
      }
      return !log_.lines().empty();
    }));
    EXPECT_GE(attached.size(), 3U);
    EXPECT_EQ(read_all(*client_), 5U);
    expect_reason(log_.lines(), reason);
  }

  Logged log_;
  std::vector<PacketSocket> listener_;  // one
  std::unique_ptr<ScriptedNode> node_;
  std::unique_ptr<Client> client_;
};

TEST_F(FailingMemory, AClientThatCannotReceiveABlockDoesWithout) {
  // The block arrives where the process may open no more files.
  expect_copies([](const PacketSocket& memory) { memory.send(encode(PassBlock{1})); },
                "open no more files");
}

TEST_F(FailingMemory, AClientWhoseSocketIsClosedDoesWithout) {
  expect_copies([](const PacketSocket& memory) { memory.shut_down(); }, "closed");
}

TEST_F(FailingMemory, NonsenseEndsTraining) {
  const PacketSocket memory = accept();
  ASSERT_TRUE(memory.send(encode(MicrobatchInBlock{{0, 0, 0}, 7, {0}})));
  EXPECT_TRUE(soon([&] {
    const auto next = client_->next({});
    return !next && next.error().code() == ErrorCode::kCorrupt;
  }));
}

// The block of a microbatch may come before its header, which goes another way.
TEST_F(FailingMemory, ABlockWaitsForItsHeader) {
  const PacketSocket memory = accept();
  const MemoryBlock block = MemoryBlock::create(kMicrobatchBytes).value();
  std::fill(block.bytes().begin(), block.bytes().end(), std::byte{7});
  ASSERT_TRUE(memory.send(encode(PassBlock{1}), block.descriptor()));
  ASSERT_TRUE(memory.send(encode(MicrobatchInBlock{{0, 4, 0}, 1, {0}})));
  ASSERT_TRUE(soon([&] {
    int unread = -1;
    return ioctl(memory.descriptor(), SIOCOUTQ, &unread) == 0 && unread == 0;
  }));
  Microbatch last;
  for (int i = 0; i < 5; ++i) last = client_->next({}).value().value();
  EXPECT_EQ(last.header.position.step, 4U);
  const auto bytes = patches(last).as<std::uint8_t>();
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == 7; }));
  EXPECT_EQ(client_->bytes_copied(), 4 * kMicrobatchBytes);
}

// A process that does `work`, with a pipe to each side. Made before there are other threads, and
// killed at the end.
class Process {
 public:
  explicit Process(const std::function<void(int in, int out)>& work) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    EXPECT_EQ(pipe(down.data()), 0);
    EXPECT_EQ(pipe(up.data()), 0);
    process_ = fork();
    if (process_ == 0) {
      close(down[1]);
      close(up[0]);
      work(down[0], up[1]);
      _exit(0);
    }
    close(down[0]);
    close(up[1]);
    in_ = down[1];
    out_ = up[0];
  }
  ~Process() {
    close(in_);
    close(out_);
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void tell(const std::string& line) const {
    EXPECT_EQ(write(in_, (line + "\n").data(), line.size() + 1),
              static_cast<ssize_t>(line.size() + 1));
  }
  std::string hear() const { return read_line(out_); }
  void send(int signal) const { EXPECT_EQ(kill(process_, signal), 0); }
  static std::string read_line(int from) {
    std::string line;
    for (char c = 0; read(from, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  pid_t process_ = -1;
  int in_ = -1;
  int out_ = -1;
};

TEST(SharedDelivery, AProcessThatIsKilledGivesItsBlocksBack) {
  auto trainer = std::make_unique<Process>([](int in, int out) {
    const auto client = connect(Process::read_line(in));
    std::vector<Microbatch> kept;
    while (kept.size() < 5) kept.push_back(client->next({}).value().value());
    const char* answer = client->bytes_copied() == 0 ? "shared\n" : "copied\n";
    static_cast<void>(!write(out, answer, 7));
    Process::read_line(in);  // until it is killed
  });
  MemoryBudget budget(64 * kMiB);
  ScriptedNode node(loopback_server(&budget), 20, kSampleBytes);
  const auto descriptors = open_descriptors();
  trainer->tell(node.endpoint());
  ASSERT_EQ(trainer->hear(), "shared");
  EXPECT_GE(budget.in_use(), 5 * kMicrobatchBytes);
  ASSERT_TRUE(node.wait([](const auto& counts) {
    const auto found = counts.acknowledged.find(0);
    return found != counts.acknowledged.end() && found->second.size() == 4;
  }));
  trainer = nullptr;
  EXPECT_TRUE(soon([&] { return budget.in_use() == 0; }));
  EXPECT_TRUE(soon([&] { return open_descriptors() <= descriptors; }));

  const auto successor = connect(node.endpoint());
  EXPECT_EQ(read_all(*successor), 16U) << "four were acknowledged";
  EXPECT_EQ(successor->bytes_copied(), 0);
}

// It is considered lost, its Unix socket is closed, and it shares memory again when it continues.
TEST(SharedDelivery, AProcessThatWasStoppedReceivesBlocksAgain) {
  const Process trainer([](int in, int out) {
    const auto client = connect(Process::read_line(in));
    bool shared = client->next({}).value().has_value();
    static_cast<void>(!write(out, "begun\n", 6));
    Process::read_line(in);
    shared = shared && read_all(*client) == 19 && client->bytes_copied() == 0;
    static_cast<void>(!write(out, shared ? "shared\n" : "copied\n", 7));
  });
  MemoryBudget budget(64 * kMiB);
  ServerOptions options = loopback_server(&budget);
  options.heartbeat_timeout = milliseconds(300);
  ScriptedNode node(options, 20, kSampleBytes);
  trainer.tell(node.endpoint());
  ASSERT_EQ(trainer.hear(), "begun");
  trainer.send(SIGSTOP);
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.left.contains(0); }));
  EXPECT_TRUE(soon([&] { return budget.in_use() == 0; }));
  trainer.send(SIGCONT);
  ASSERT_TRUE(node.wait([](const auto& counts) {
    const auto found = counts.rejoined_as_same.find(0);
    return found != counts.rejoined_as_same.end() && found->second > 0;
  }));
  trainer.tell("go on");
  EXPECT_EQ(trainer.hear(), "shared");
}

// More is queued for it than the system's buffers hold, and its connection is closed.
TEST(SocketDelivery, AProcessThatIsStoppedKeepsNothingQueued) {
  const Process trainer([](int in, int out) {
    const auto client = connect(Process::read_line(in));
    const bool begun = client->next({}).value().has_value();
    static_cast<void>(!write(out, begun ? "begun\n" : "ended\n", 6));
    kill(getpid(), SIGSTOP);
    while (client->next({})) {
    }
  });
  ServerOptions options = loopback_server(nullptr);
  options.heartbeat_timeout = milliseconds(1000);
  ScriptedNode node(options, 20, /*sample_bytes=*/8 * kMiB);
  trainer.tell(node.endpoint());
  ASSERT_EQ(trainer.hear(), "begun");
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.left.contains(0); }));
  EXPECT_TRUE(soon([&] { return node.bytes_held() == 0; })) << node.bytes_held();
}

TEST(SharedDelivery, AProcessThatServedIsKilledAndItsTensorsStay) {
  auto serving = std::make_unique<Process>([](int in, int out) {
    MemoryBudget budget(64 * kMiB);
    const ScriptedNode node(loopback_server(&budget), 1000, kSampleBytes);
    const std::string line = node.endpoint() + "\n";
    static_cast<void>(!write(out, line.data(), line.size()));
    Process::read_line(in);  // until it is killed
  });
  const auto client = connect(serving->hear());
  std::vector<Microbatch> kept;
  while (kept.size() < 5) kept.push_back(client->next({}).value().value());
  serving = nullptr;
  for (;;) {
    auto next = client->next({});
    if (!next) {
      EXPECT_EQ(next.error().code(), ErrorCode::kUnavailable) << next.error().message();
      break;
    }
    kept.push_back(next->value());
  }
  EXPECT_EQ(client->bytes_copied(), 0);
  for (const Microbatch& microbatch : kept) EXPECT_TRUE(has_content(microbatch));
}

}  // namespace
}  // namespace isocost
