// An input is one file of the packets that either side of the Unix socket for shared memory may
// send, each after a byte that tells who sends it and with which descriptor, and a u16 of its size.
// Nothing crashes, and all memory is given back.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/memory_budget.h"
#include "base/units.h"
#include "tests/support/reserve_from.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/shared_memory/block_sender.h"
#include "transport/shared_memory/memory_block.h"
#include "transport/shared_memory/packet_socket.h"
#include "transport/wire/wire.h"

namespace {

using namespace isocost;  // NOLINT(google-build-using-namespace): a program of one file
using Bytes = std::span<const std::byte>;

Bytes take(Bytes& rest, std::size_t size) {
  const Bytes taken = rest.first(std::min(size, rest.size()));
  rest = rest.subspan(taken.size());
  return taken;
}

// A node whose client says what the file holds, and holds a filled block: number 1.
class Node {
 public:
  explicit Node(MemoryBudget& budget)
      : sender_(BlockSender::create(reserve_from(budget), name_of, {}).value()) {
    const SharedMemoryOffer offer = sender_->offer(0, 1);
    client_ = PacketSocket::connect(offer.socket).value();
    client_->send(encode(AttachMemory{offer.token}));
    sender_->serve();
    deliver(0);
  }

  void hear(Bytes packet) {
    client_->send(packet);
    sender_->serve();
    deliver(++step_);
  }

 private:
  static std::string name_of(std::int32_t rank) { return std::to_string(rank); }
  void deliver(std::uint32_t step) {
    MicrobatchHeader header;
    header.position.step = step;
    header.samples = {{step, 1.0F, 1}};
    header.tensors = {{"vision.patches", DType::kUInt8, {1, 8}}};
    header.rows = {1};
    static constexpr std::array<std::byte, 8> kContent{};
    if (!sender_->begin(0, header, 1)) return;
    sender_->add(
        0, {header.position, 0, {{"vision.patches", {DType::kUInt8, {1, 8}, kContent.data(), {}}}}},
        1);
  }

  std::unique_ptr<BlockSender> sender_;
  std::optional<PacketSocket> client_;
  std::uint32_t step_ = 0;
};

// A client whose node says what the file holds.
class Client {
 public:
  Client() {
    const std::string name = "isocost.fuzz." + std::to_string(getpid());
    PacketSocket listener = PacketSocket::listen(name).value();
    receiver_ = BlockReceiver::attach({name, {}}).value();
    node_ = listener.accept().value();
  }

  void hear(Bytes packet, int descriptor) {
    node_->send(packet, descriptor);
    for (;;) {
      const auto received = receiver_->receive();
      if (!received || !received->has_value()) return;
      (*received)->bytes.back() = (*received)->bytes.front();
    }
  }

 private:
  std::unique_ptr<BlockReceiver> receiver_;
  std::optional<PacketSocket> node_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryBlock sealed = MemoryBlock::create(1).value();
  static const FileDescriptor open_memory(memfd_create("fuzz", MFD_CLOEXEC));
  MemoryBudget budget(kMiB);
  {
    Node node(budget);
    Client client;
    Bytes rest = std::as_bytes(std::span(data, size));
    for (int packets = 0; !rest.empty() && packets < 100; ++packets) {
      const auto kind = std::to_integer<int>(take(rest, 1).front());
      std::uint16_t length = 0;
      const Bytes prefix = take(rest, sizeof(length));
      std::memcpy(&length, prefix.data(), prefix.size());
      const Bytes packet = take(rest, length);
      if (kind % 4 == 0) node.hear(packet);
      if (kind % 4 == 1) client.hear(packet, -1);
      if (kind % 4 == 2) client.hear(packet, sealed.descriptor());
      if (kind % 4 == 3) client.hear(packet, open_memory.get());
    }
  }
  if (budget.in_use() != 0) std::abort();
  return 0;
}
