#include "transport/shared_memory/block_sender.h"

#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <ranges>
#include <span>
#include <string_view>
#include <system_error>

#include "base/units.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;
using Token = std::array<std::uint8_t, 16>;

// Most connections that one pass accepts, and most packets that it reads from each: a client that
// floods the sockets must not keep the server's thread from its other work.
constexpr int kAtOnce = 16;
// Most connections that have not attached; for one more, the oldest of them is closed.
constexpr std::ptrdiff_t kMaxUnattached = 64;
// Free blocks that a session keeps beyond as many as it has in use: a script that releases many
// microbatches at once does not need them all again.
constexpr std::size_t kSpareBlocks = 2;
constexpr std::chrono::minutes kBetweenLines{1};
// Time after which connections are accepted again where the system lacked something for one.
constexpr std::chrono::seconds kListenAgain{1};

Token random_token() {
  Token token{};
  while (getrandom(token.data(), token.size(), 0) != std::ssize(token)) {
  }
  return token;
}

std::string random_name() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = "isocost.";
  for (const std::uint8_t byte : random_token()) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

// Compares in constant time.
bool is_same(const Token& a, const Token& b) {
  unsigned differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differences |= a.at(i) ^ b.at(i);
  return differences == 0;
}

// Rounds up to the four leading bits of the size, so that microbatches of nearly equal size can use
// the same blocks.
std::int64_t capacity_for(std::int64_t bytes) {
  bytes = std::max(bytes, 64 * kKiB);
  const int shift = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes - 1))) - 4;
  const std::int64_t step = std::int64_t{1} << shift;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Result<std::unique_ptr<BlockSender>> BlockSender::create(Reserve reserve, NameOf name_of,
                                                         LogSink log) {
  std::string name = random_name();
  ISOCOST_ASSIGN(PacketSocket listener, PacketSocket::listen(name));
  FileDescriptor events(epoll_create1(EPOLL_CLOEXEC));
  if (!events.is_open()) {
    return Error(ErrorCode::kUnavailable, "epoll: " + std::generic_category().message(errno));
  }
  std::unique_ptr<BlockSender> sender(new BlockSender(std::move(reserve), std::move(name_of),
                                                      std::move(log), std::move(name),
                                                      std::move(listener), std::move(events)));
  if (!sender->watch(sender->listener_.descriptor())) {
    return Error(ErrorCode::kUnavailable, "epoll: " + std::generic_category().message(errno));
  }
  return sender;
}

bool BlockSender::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

SharedMemoryOffer BlockSender::offer(std::int32_t rank, std::uint64_t session) {
  forget(rank);
  Client client;
  client.session = session;
  client.token = random_token();
  SharedMemoryOffer offer{name_, client.token};
  const MutexLock lock(mutex_);
  clients_.insert_or_assign(rank, std::move(client));
  return offer;
}

void BlockSender::forget(std::int32_t rank) {
  for (auto entry = connections_.begin(); entry != connections_.end(); ++entry) {
    if (entry->second.rank != rank) continue;
    close(entry->first);
    break;
  }
  drop_blocks(rank);
}

// Drops a rank's blocks. The lock is released before the blocks are unmapped, which takes a while.
void BlockSender::drop_blocks(std::int32_t rank) {
  std::map<std::int32_t, Client>::node_type dropped;
  const MutexLock lock(mutex_);
  dropped = clients_.extract(rank);
}

void BlockSender::close(int descriptor) {
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  connections_.erase(descriptor);
}

void BlockSender::serve() {
  if (listen_again_ && Clock::now() >= *listen_again_ && watch(listener_.descriptor())) {
    listen_again_ = std::nullopt;
  }
  std::array<epoll_event, 64> events{};
  const int count =
      epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), /*timeout=*/0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = events.at(static_cast<std::size_t>(i)).data.fd;
    if (descriptor == listener_.descriptor()) {
      accept_some();
    } else {
      receive_some(descriptor);
    }
  }
}

void BlockSender::accept_some() {
  for (int i = 0; i < kAtOnce; ++i) {
    auto accepted = listener_.accept();
    if (!accepted) {
      // Removed from the epoll, since the connection still waits and the listener would always be
      // readable.
      epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener_.descriptor(), nullptr);
      listen_again_ = Clock::now() + kListenAgain;
      tell(Obstacle::kNotAccepted, std::nullopt,
           "a client must wait for shared memory: " + accepted.error().message());
      return;
    }
    std::optional<PacketSocket> client = *std::move(accepted);
    if (!client) return;
    limit_strangers();
    const auto socket = std::make_shared<PacketSocket>(*std::move(client));
    if (!watch(socket->descriptor())) continue;
    connections_[socket->descriptor()] = {socket, std::nullopt, ++accepted_};
    receive_some(socket->descriptor());  // a client attaches at once
  }
}

// Makes room for one more connection that has not attached, by closing the oldest of them: it had
// the longest time to attach.
void BlockSender::limit_strangers() {
  auto strangers = connections_ | std::views::filter([](const auto& entry) {
                     return !entry.second.rank.has_value();
                   });
  if (std::ranges::distance(strangers) < kMaxUnattached) return;
  const auto oldest = std::ranges::min_element(
      strangers, {}, [](const auto& entry) { return entry.second.number; });
  close(oldest->first);
}

void BlockSender::receive_some(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  for (int i = 0; i < kAtOnce; ++i) {
    auto received = connection.socket->receive();
    if (received) {
      const std::optional<PacketSocket::Packet> packet = *std::move(received);
      if (!packet) return;
      if (handle(connection, *packet)) continue;
    }
    const std::optional<std::int32_t> rank = connection.rank;
    close(descriptor);
    if (rank) drop_blocks(*rank);
    return;
  }
}

// Returns false for a packet that no client sends.
bool BlockSender::handle(Connection& connection, const PacketSocket::Packet& packet) {
  const auto message = decode(packet.bytes);
  if (!message) return false;
  if (const auto* attached = std::get_if<AttachMemory>(&*message)) {
    return !connection.rank && attach(connection, *attached);
  }
  const auto* released = std::get_if<ReleaseBlocks>(&*message);
  return released != nullptr && connection.rank && release(*connection.rank, *released);
}

bool BlockSender::attach(Connection& connection, const AttachMemory& packet) {
  const MutexLock lock(mutex_);
  for (auto& [rank, client] : clients_) {
    if (client.socket != nullptr || !is_same(client.token, packet.token)) continue;
    client.socket = connection.socket;
    connection.rank = rank;
    return true;
  }
  return false;
}

bool BlockSender::release(std::int32_t rank, const ReleaseBlocks& packet) {
  std::vector<Block> dropped;
  Socket socket;
  {
    const MutexLock lock(mutex_);
    const auto found = clients_.find(rank);
    if (found == clients_.end()) return false;
    Client& client = found->second;
    for (const std::uint64_t number : packet.blocks) {
      auto block = client.in_use.extract(number);
      if (block.empty()) return false;
      client.free.push_back(std::move(block.mapped()));
    }
    const std::size_t used = client.in_use.size() + client.filling.size();
    while (client.free.size() > used + kSpareBlocks) {
      auto unused = take_free(client, 0);
      if (!unused) break;
      dropped.push_back(*std::move(unused));
    }
    socket = client.socket;
  }
  return std::ranges::all_of(
      dropped, [&](const Block& block) { return socket->send(encode(DropBlock{block.number})); });
}

BlockSender::Client* BlockSender::find(std::int32_t rank, std::uint64_t session) {
  const auto found = clients_.find(rank);
  if (found == clients_.end() || found->second.socket == nullptr) return nullptr;
  return session == 0 || found->second.session == session ? &found->second : nullptr;
}

// Returns the smallest free block that is large enough.
std::optional<BlockSender::Block> BlockSender::take_free(Client& client, std::int64_t bytes) {
  auto best = client.free.end();
  for (auto block = client.free.begin(); block != client.free.end(); ++block) {
    if (block->memory.size() < bytes) continue;
    if (best == client.free.end() || block->memory.size() < best->memory.size()) best = block;
  }
  if (best == client.free.end()) return std::nullopt;
  std::swap(*best, client.free.back());
  Block block = std::move(client.free.back());
  client.free.pop_back();
  return block;
}

std::optional<BlockSender::Block> BlockSender::take_smallest(std::int32_t rank,
                                                             std::uint64_t session) {
  const MutexLock lock(mutex_);
  Client* client = find(rank, session);
  return client == nullptr ? std::nullopt : take_free(*client, 0);
}

// Reserves memory for a new block; gives up free blocks, which are too small, until there is room.
std::shared_ptr<const void> BlockSender::reserve(std::int32_t rank, std::uint64_t session,
                                                 const PacketSocket& socket, std::int64_t bytes) {
  for (;;) {
    if (auto reserved = reserve_(bytes)) return reserved;
    const auto unused = take_smallest(rank, session);
    if (!unused) return nullptr;
    if (socket.send(encode(DropBlock{unused->number}))) continue;
    // The client would keep the memory of the block, which no longer counts in the budget.
    socket.shut_down();
    return nullptr;
  }
}

std::optional<BlockSender::Block> BlockSender::make(std::int32_t rank, std::uint64_t session,
                                                    const PacketSocket& socket,
                                                    std::int64_t bytes) {
  const std::int64_t capacity = capacity_for(bytes);
  auto reserved = reserve(rank, session, socket, capacity);
  if (!reserved) {
    tell(Obstacle::kNoBudget, rank,
         "a microbatch of " + std::to_string(bytes) +
             " bytes goes over the socket: blocks of shared memory that trainers hold, and samples "
             "that wait, take up their half of the memory budget (option memory)");
    return std::nullopt;
  }
  auto memory = MemoryBlock::create(capacity);
  if (!memory) {
    tell(Obstacle::kNoMemory, rank,
         "a microbatch goes over the socket: " + memory.error().message());
    return std::nullopt;
  }
  Block block{++blocks_made_, std::move(reserved), *std::move(memory)};
  if (!socket.send(encode(PassBlock{block.number}), block.memory.descriptor())) {
    tell(Obstacle::kNotTaken, rank,
         "a microbatch goes over the socket: its client takes no further block of shared memory");
    return std::nullopt;
  }
  block.memory.close_descriptor();
  return block;
}

std::optional<std::uint64_t> BlockSender::begin(std::int32_t rank, const MicrobatchHeader& header,
                                                std::uint64_t session) {
  auto layout = BlockLayout::of(header);
  if (!layout || layout->bytes == 0) return std::nullopt;
  Socket socket;
  std::optional<Block> block;
  {
    const MutexLock lock(mutex_);
    Client* client = find(rank, session);
    if (client == nullptr) return std::nullopt;
    session = client->session;
    socket = client->socket;
    block = take_free(*client, layout->bytes);
  }
  if (!block) block = make(rank, session, *socket, layout->bytes);
  if (!block) return std::nullopt;
  auto microbatch =
      std::make_shared<Microbatch>(*std::move(block), *std::move(layout), header.samples.size());
  const MutexLock lock(mutex_);
  Client* client = find(rank, session);
  if (client == nullptr) return std::nullopt;
  client->filling.insert_or_assign(header.position, std::move(microbatch));
  return session;
}

bool BlockSender::add(std::int32_t rank, const Fragment& fragment, std::uint64_t session) {
  std::shared_ptr<Microbatch> microbatch;
  {
    const MutexLock lock(mutex_);
    Client* client = find(rank, session);
    if (client == nullptr) return false;
    const auto found = client->filling.find(fragment.position);
    if (found == client->filling.end()) return false;
    session = client->session;
    microbatch = found->second;
  }
  switch (microbatch->filling.add(fragment)) {
    case BlockFilling::Progress::kRefused:
      return false;  // the client reports what is wrong with it
    case BlockFilling::Progress::kAdded:
      break;
    case BlockFilling::Progress::kComplete:
      complete(rank, session, fragment.position, *microbatch);
      break;
  }
  return true;
}

void BlockSender::complete(std::int32_t rank, std::uint64_t session, const Position& position,
                           Microbatch& microbatch) {
  const std::uint64_t number = microbatch.block.number;
  Socket socket;
  {
    const MutexLock lock(mutex_);
    Client* client = find(rank, session);
    if (client == nullptr) return;
    client->filling.erase(position);
    client->in_use.emplace(number, std::move(microbatch.block));
    socket = client->socket;
  }
  microbatches_ += 1;
  const MicrobatchInBlock filled{position, number, microbatch.filling.layout().offsets()};
  // A client that takes no packet has not read for long. The microbatch is sent again when the
  // client notices the end of the connection.
  if (!socket->send(encode(filled))) socket->shut_down();
}

// Logs each obstacle of each rank at most once in kBetweenLines, so that one does not hide another
// and none fills the log. What a user can mend is a warning the first time.
void BlockSender::tell(Obstacle obstacle, std::optional<std::int32_t> rank,
                       const std::string& text) {
  const bool wants_memory = obstacle == Obstacle::kNoBudget || obstacle == Obstacle::kNoMemory;
  bool is_first = false;
  {
    const auto now = Clock::now();
    const MutexLock lock(mutex_);
    const auto [next, is_new] = next_line_.try_emplace({obstacle, rank});
    if (now < next->second) return;
    next->second = now + kBetweenLines;
    is_first = is_new;
  }
  log(log_, wants_memory && is_first ? LogLevel::kWarning : LogLevel::kInfo,
      rank ? name_of_(*rank) + ": " + text : text);
}

}  // namespace isocost
