#include "transport/shared_memory/block_receiver.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "transport/shared_memory/internal/host_registration.h"
#include "transport/shared_memory/memory_block.h"
#include "transport/shared_memory/packet_socket.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

// Most packets that one call of receive reads, so that its thread can do other work in between.
constexpr int kPacketsAtOnce = 16;

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

  // Sends the waiting numbers. Those that the node does not take now wait for the next call.
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

  // Ends the sending: the receiver, and its socket, are gone.
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

struct Block {
  explicit Block(Mapping own) : mapping(std::move(own)) {}
  Mapping mapping;
  std::atomic<bool> in_use = false;
  std::once_flag pinned;
  Status registered;
  std::optional<HostRegistration> registration;  // declared after the mapping, so it ends first
};

Status pin(const std::weak_ptr<Block>& kept) {
  const auto block = kept.lock();
  if (block == nullptr) return Error(ErrorCode::kNotFound, "the tensors are gone");
  std::call_once(block->pinned, [&] {
    auto made = HostRegistration::of(block->mapping.bytes());
    if (made) {
      block->registration = *std::move(made);
    } else {
      block->registered = std::move(made).error();
    }
  });
  return block->registered;
}

class BlockReceiverImpl final : public BlockReceiver {
 public:
  explicit BlockReceiverImpl(PacketSocket socket)
      : socket_(std::make_shared<PacketSocket>(std::move(socket))),
        releases_(std::make_shared<Releases>(socket_)) {}
  ~BlockReceiverImpl() override { releases_->close(); }

  Result<std::optional<Delivered>> receive() override;
  int descriptor() const override { return socket_->descriptor(); }

 private:
  Status map(const PassBlock& passed, const FileDescriptor& memory);
  Result<Delivered> take(MicrobatchInBlock microbatch);

  const std::shared_ptr<PacketSocket> socket_;
  const std::shared_ptr<Releases> releases_;
  std::map<std::uint64_t, std::shared_ptr<Block>> blocks_;
};

Result<std::optional<BlockReceiver::Delivered>> BlockReceiverImpl::receive() {
  releases_->send();
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    ISOCOST_ASSIGN(const auto packet, socket_->receive());
    if (!packet) break;
    ISOCOST_ASSIGN(Message message, decode(packet->bytes));
    if (auto* microbatch = std::get_if<MicrobatchInBlock>(&message)) {
      ISOCOST_ASSIGN(Delivered delivered, take(std::move(*microbatch)));
      return std::optional(std::move(delivered));
    }
    if (const auto* passed = std::get_if<PassBlock>(&message)) {
      ISOCOST_TRY(map(*passed, packet->descriptor));
    } else if (const auto* dropped = std::get_if<DropBlock>(&message)) {
      blocks_.erase(dropped->block);
    } else {
      return Error(ErrorCode::kCorrupt, "the node sent an unexpected packet over the Unix socket");
    }
  }
  return std::optional<Delivered>();
}

Status BlockReceiverImpl::map(const PassBlock& passed, const FileDescriptor& memory) {
  if (!memory.is_open()) {
    return Error(ErrorCode::kUnavailable, "this process can open no more files");
  }
  ISOCOST_ASSIGN(Mapping mapping, map_block(memory));
  blocks_.insert_or_assign(passed.block, std::make_shared<Block>(std::move(mapping)));
  return {};
}

Result<BlockReceiver::Delivered> BlockReceiverImpl::take(MicrobatchInBlock microbatch) {
  const auto found = blocks_.find(microbatch.block);
  if (found == blocks_.end() || found->second->in_use.exchange(true)) {
    return Error(
        ErrorCode::kCorrupt,
        "the node names a block of shared memory that it has not passed, or that is in use");
  }
  const std::span<std::byte> bytes = found->second->mapping.bytes();
  const auto release = [block = found->second, releases = releases_,
                        number = microbatch.block](const void*) {
    block->in_use = false;
    releases->add(number);
  };
  return Delivered{microbatch.position, std::move(microbatch.offsets), bytes,
                   std::shared_ptr<const void>(bytes.data(), release),
                   [block = std::weak_ptr(found->second)] { return pin(block); }};
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
