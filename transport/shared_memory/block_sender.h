#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "transport/shared_memory/block_filling.h"
#include "transport/shared_memory/memory_block.h"
#include "transport/shared_memory/packet_socket.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {

/// The node's half of delivery by shared memory: gives microbatches of clients on this host a block
/// each, copies samples into them, and takes blocks back. A block belongs to one session of one
/// client, which maps it once. When the session ends, its blocks are dropped and not used again,
/// because the client may still read them; the system frees their memory when it no longer does.
/// `begin` and `add` may be called from any thread, the other functions from the server's thread.
class BlockSender {
 public:
  /// The type of ServerOptions::reserve_block.
  using Reserve = std::function<std::shared_ptr<const void>(std::int64_t bytes)>;

  /// Returns the name of a rank for messages; called from any thread.
  using NameOf = std::function<std::string(std::int32_t rank)>;

  /// Listens under a random name. Errors: kUnavailable with what the system says.
  static Result<std::unique_ptr<BlockSender>> create(Reserve reserve, NameOf name_of, LogSink log);

  /// Registers the session of a client that has taken a rank, and drops the blocks of the rank's
  /// last client. Returns how the client attaches.
  SharedMemoryOffer offer(std::int32_t rank, std::uint64_t session) ISOCOST_EXCLUDES(mutex_);
  /// Drops the blocks of a rank whose client has left.
  void forget(std::int32_t rank) ISOCOST_EXCLUDES(mutex_);

  /// Returns a descriptor that is readable when `serve` has something to do.
  int descriptor() const { return events_.get(); }
  /// Takes new connections and packets; never blocks. Takes a limited number of each per call,
  /// after which `descriptor` stays readable.
  void serve() ISOCOST_EXCLUDES(mutex_);

  /// Finds a block for a microbatch, once for each position of a session; never blocks. Returns the
  /// client's session, or nothing if the microbatch goes over the socket because its client shares
  /// no memory, or there is none now. `session` 0 means whichever session the rank has.
  std::optional<std::uint64_t> begin(std::int32_t rank, const MicrobatchHeader& header,
                                     std::uint64_t session) ISOCOST_EXCLUDES(mutex_);
  /// Copies a sample of a microbatch that has a block and, once all samples are there, tells the
  /// client. Returns false if it has no block.
  bool add(std::int32_t rank, const Fragment& fragment, std::uint64_t session)
      ISOCOST_EXCLUDES(mutex_);

  /// Returns the number of microbatches that went by shared memory. Thread-safe.
  std::uint64_t microbatches() const { return microbatches_; }

 private:
  struct Block {
    std::uint64_t number = 0;
    std::shared_ptr<const void> reserved;  // outlives the memory
    MemoryBlock memory;
  };
  using Socket = std::shared_ptr<PacketSocket>;
  // A microbatch that is being filled. Its block is taken out when it is complete.
  struct Microbatch {
    Microbatch(Block own, BlockLayout layout, std::size_t samples)
        : block(std::move(own)), filling(std::move(layout), samples, block.memory.bytes()) {}
    Block block;
    BlockFilling filling;
  };
  struct Client {
    std::uint64_t session = 0;
    std::array<std::uint8_t, 16> token{};
    Socket socket;            // null until it has attached
    std::vector<Block> free;  // mapped by the client, and not in use there
    std::map<std::uint64_t, Block> in_use;
    std::map<Position, std::shared_ptr<Microbatch>> filling;
  };
  struct Connection {
    Socket socket;
    std::optional<std::int32_t> rank;  // nothing until it has attached
    std::uint64_t number = 0;          // in the order in which they were accepted
  };

  // Why a microbatch does not go in shared memory.
  enum class Obstacle { kNotAccepted, kNoBudget, kNoMemory, kNotTaken };

  BlockSender(Reserve reserve, NameOf name_of, LogSink log, std::string name, PacketSocket listener,
              FileDescriptor events)
      : reserve_(std::move(reserve)),
        name_of_(std::move(name_of)),
        log_(std::move(log)),
        name_(std::move(name)),
        listener_(std::move(listener)),
        events_(std::move(events)) {}

  Client* find(std::int32_t rank, std::uint64_t session) ISOCOST_REQUIRES(mutex_);
  std::optional<Block> take_free(Client& client, std::int64_t bytes) ISOCOST_REQUIRES(mutex_);
  std::optional<Block> take_smallest(std::int32_t rank, std::uint64_t session)
      ISOCOST_EXCLUDES(mutex_);
  std::optional<Block> make(std::int32_t rank, std::uint64_t session, const PacketSocket& socket,
                            std::int64_t bytes) ISOCOST_EXCLUDES(mutex_);
  std::shared_ptr<const void> reserve(std::int32_t rank, std::uint64_t session,
                                      const PacketSocket& socket, std::int64_t bytes)
      ISOCOST_EXCLUDES(mutex_);
  bool watch(int descriptor);
  void accept_some();
  void limit_strangers();
  void receive_some(int descriptor) ISOCOST_EXCLUDES(mutex_);
  bool handle(Connection& connection, const PacketSocket::Packet& packet) ISOCOST_EXCLUDES(mutex_);
  bool attach(Connection& connection, const AttachMemory& packet) ISOCOST_EXCLUDES(mutex_);
  bool release(std::int32_t rank, const ReleaseBlocks& packet) ISOCOST_EXCLUDES(mutex_);
  void complete(std::int32_t rank, std::uint64_t session, const Position& position,
                Microbatch& microbatch) ISOCOST_EXCLUDES(mutex_);
  void drop_blocks(std::int32_t rank) ISOCOST_EXCLUDES(mutex_);
  void close(int descriptor);
  void tell(Obstacle obstacle, std::optional<std::int32_t> rank, const std::string& text)
      ISOCOST_EXCLUDES(mutex_);

  const Reserve reserve_;
  const NameOf name_of_;
  const LogSink log_;
  const std::string name_;
  PacketSocket listener_;
  FileDescriptor events_;                  // an epoll of the listener and all connections
  std::map<int, Connection> connections_;  // by descriptor; server's thread only
  std::uint64_t accepted_ = 0;             // server's thread only
  std::optional<std::chrono::steady_clock::time_point>
      listen_again_;  // empty: the listener is watched; server's thread only
  std::atomic<std::uint64_t> blocks_made_ = 0;
  std::atomic<std::uint64_t> microbatches_ = 0;

  Mutex mutex_;
  std::map<std::int32_t, Client> clients_ ISOCOST_GUARDED_BY(mutex_);  // by rank
  // Times from which each obstacle may be logged again.
  std::map<std::pair<Obstacle, std::optional<std::int32_t>>, std::chrono::steady_clock::time_point>
      next_line_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
