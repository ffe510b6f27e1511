#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "base/tensor.h"
#include "decode/recipe.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Messages between a node and its decode workers: one packet a message over a pair of
/// SOCK_SEQPACKET sockets; bytes of samples and tensors lie in memory that both map. Structs are
/// sent as they lie in memory, because both ends are the same build: the first packet's version
/// tells. The node trusts nothing that a worker says.
///
///     node                    worker
///     Setup as JSON     ->
///                       <-    ReadyMessage
///     RequestMessage    ->                   parts in the window
///                       <-    ReadMessage    as often as it needs bytes
///     ReadDoneMessage   ->                   bytes in the window
///                       <-    ResultMessage  tensors in the arena

inline constexpr int kWorkerSocket = 3;  ///< A worker's descriptors.
inline constexpr int kWorkerMemory = 4;
/// Size of the window, the first part of the memory; the arena of the tensors follows it.
inline constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxPacket = 4096;

enum class MessageKind : std::uint32_t { kReady = 1, kRequest, kRead, kReadDone, kResult };

/// Version, recipe and limits of a worker.
struct WorkerSetup {
  std::string recipe;  ///< Recipe::description.
  std::int64_t cpu_time_ns = 0;
  std::int64_t memory = 0;
};
std::string to_json(const WorkerSetup& setup);
/// Parses a setup. Errors: kCorrupt; kUnsupported for another version.
Result<WorkerSetup> parse_worker_setup(std::string_view json);

struct ReadyMessage {
  MessageKind kind = MessageKind::kReady;
  std::uint32_t filtered = 0;  ///< 1: a system-call filter is in force.
};

struct WirePart {
  PartShape shape;
  std::int64_t bytes = 0;  ///< Size of the source.
};
inline constexpr std::size_t kMaxParts = kWindowBytes / sizeof(WirePart);

struct RequestMessage {
  MessageKind kind = MessageKind::kRequest;
  std::uint32_t parts = 0;
};

struct ReadMessage {
  MessageKind kind = MessageKind::kRead;
  std::uint32_t part = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct ReadDoneMessage {
  MessageKind kind = MessageKind::kReadDone;
  std::uint32_t failed = 0;
  std::int64_t bytes = 0;
};

struct WireTensor {
  std::array<char, 32> name{};
  DType dtype = DType::kUInt8;
  std::uint32_t dimensions = 0;
  std::array<std::int64_t, 4> shape{};
  std::int64_t offset = 0;  ///< Offset in the arena.
};

struct ResultMessage {
  MessageKind kind = MessageKind::kResult;
  std::uint32_t part = 0;     ///< The part at fault.
  std::uint32_t tensors = 0;  ///< 0: an error.
  ErrorCode code = ErrorCode::kInternal;
  std::array<char, 512> message{};
  std::array<WireTensor, 16> tensor;
};
static_assert(std::is_trivially_copyable_v<WirePart> && sizeof(ResultMessage) <= kMaxPacket);

/// Sends one packet; never waits, because at most one is under way in each direction. Errors:
/// kUnavailable if the other end is gone; kResourceExhausted if it does not read.
Status send_packet(int socket, std::span<const std::byte> packet);
/// Receives one packet of at most kMaxPacket bytes. With `parent` it waits as long as that is the
/// parent of this process; without, it does not wait. Returns an empty string if the other end is
/// gone, or nothing has come.
std::string receive_packet(int socket, std::optional<pid_t> parent = std::nullopt);

template <typename Message>
Status send_message(int socket, const Message& message) {
  return send_packet(socket, std::as_bytes(std::span(&message, 1)));
}

/// Returns the packet as a message of this type; nothing if it is another message.
template <typename Message>
std::optional<Message> as_message(std::string_view packet) {
  static_assert(std::is_trivially_copyable_v<Message>);
  Message message;
  if (packet.size() != sizeof message) return std::nullopt;
  const MessageKind kind = message.kind;
  std::ranges::copy(std::as_bytes(std::span(packet)),
                    std::as_writable_bytes(std::span(&message, 1)).begin());
  return message.kind == kind ? std::optional(message) : std::nullopt;
}

}  // namespace isocost
