#include "transport/block_receiver.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/internal/memory_block.h"
#include "transport/internal/packet_socket.h"
#include "transport/wire.h"

namespace isocost {
namespace {

// Tells the node which blocks are released. It outlives the receiver, as tensors may.
class Releases {
 public:
  explicit Releases(std::shared_ptr<const PacketSocket> socket) : socket_(std::move(socket)) {}

  void add(std::uint64_t number) {
    // A child of fork has copies of this object and of the memory: it must not speak for its
    // parent.
    if (getpid() != process_) return;
    {
      const MutexLock lock(mutex_);
      waiting_.push_back(number);
    }
    send();
  }

  // Sends what waits. What the node does not take now waits further.
  void send() {
    for (;;) {
      ReleaseBlocks some;
      std::shared_ptr<const PacketSocket> socket;
      {
        const MutexLock lock(mutex_);
        socket = socket_;
        const std::size_t count = std::min(waiting_.size(), kMaxReleasedBlocks);
        some.blocks.assign(waiting_.end() - static_cast<std::ptrdiff_t>(count), waiting_.end());
        waiting_.resize(waiting_.size() - count);
      }
      if (some.blocks.empty() || socket == nullptr) return;
      if (socket->send(encode(some))) continue;
      const MutexLock lock(mutex_);
      waiting_.insert(waiting_.end(), some.blocks.begin(), some.blocks.end());
      return;
    }
  }

  // Nobody listens any more.
  void close() {
    const MutexLock lock(mutex_);
    socket_ = nullptr;
  }

 private:
  const pid_t process_ = getpid();
  Mutex mutex_;
  std::shared_ptr<const PacketSocket> socket_ ISOCOST_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> waiting_ ISOCOST_GUARDED_BY(mutex_);
};

struct Mapped {
  explicit Mapped(ReceivedBlock own) : block(std::move(own)) {}
  ReceivedBlock block;
  std::atomic<bool> in_use = false;
};

class BlockReceiverImpl final : public BlockReceiver {
 public:
  explicit BlockReceiverImpl(PacketSocket socket)
      : socket_(std::make_shared<PacketSocket>(std::move(socket))),
        releases_(std::make_shared<Releases>(socket_)) {}
  ~BlockReceiverImpl() override { releases_->close(); }

  Result<Block> take(std::uint64_t number) override;
  Status keep_up() override;

 private:
  Status receive_all();
  Status receive(const PacketSocket::Packet& packet);

  const std::shared_ptr<PacketSocket> socket_;
  const std::shared_ptr<Releases> releases_;
  std::map<std::uint64_t, std::shared_ptr<Mapped>> blocks_;
};

Status BlockReceiverImpl::keep_up() {
  releases_->send();
  return receive_all();
}

Status BlockReceiverImpl::receive_all() {
  for (;;) {
    ISOCOST_ASSIGN(const auto packet, socket_->receive());
    if (!packet) return {};
    ISOCOST_TRY(receive(*packet));
  }
}

Status BlockReceiverImpl::receive(const PacketSocket::Packet& packet) {
  ISOCOST_ASSIGN(const Message message, decode(packet.bytes));
  if (const auto* dropped = std::get_if<DropBlock>(&message)) {
    blocks_.erase(dropped->block);
    return {};
  }
  const auto* passed = std::get_if<PassBlock>(&message);
  if (passed == nullptr) {
    return Error(ErrorCode::kCorrupt, "the node sent an unexpected packet over the Unix socket");
  }
  if (!packet.descriptor.is_open()) {
    return Error(ErrorCode::kUnavailable, "this process can open no more files");
  }
  ISOCOST_ASSIGN(ReceivedBlock block, ReceivedBlock::map(packet.descriptor));
  blocks_.insert_or_assign(passed->block, std::make_shared<Mapped>(std::move(block)));
  return {};
}

// What the node has passed before it sent the number has arrived before it.
Result<BlockReceiver::Block> BlockReceiverImpl::take(std::uint64_t number) {
  const Status heard = blocks_.contains(number) ? Status() : receive_all();
  const auto found = blocks_.find(number);
  if (found == blocks_.end() && !heard) return heard.error();
  if (found == blocks_.end() || found->second->in_use.exchange(true)) {
    return Error(
        ErrorCode::kCorrupt,
        "the node names a block of shared memory that it has not passed, or that is in use");
  }
  const std::span<std::byte> bytes = found->second->block.bytes();
  const auto release = [mapped = found->second, releases = releases_, number](const void*) {
    // A block that cannot be read anew is never used again.
    if (!mapped->block.forget_writes()) return;
    mapped->in_use = false;
    releases->add(number);
  };
  return Block{bytes, std::shared_ptr<const void>(bytes.data(), release)};
}

}  // namespace

Result<std::unique_ptr<BlockReceiver>> BlockReceiver::attach(const SharedMemoryOffer& offer) {
  ISOCOST_ASSIGN(PacketSocket socket, PacketSocket::connect(offer.socket));
  if (!socket.send(encode(AttachMemory{offer.token}))) {
    return Error(ErrorCode::kUnavailable, "the node's Unix socket refused the first packet");
  }
  return std::unique_ptr<BlockReceiver>(std::make_unique<BlockReceiverImpl>(std::move(socket)));
}

}  // namespace isocost
