#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "transport/wire/messages.h"

namespace isocost {

/// The content of a first frame, or of a packet of the Unix socket: any message of the protocol.
/// See docs/wire_format.md.
using Message =
    std::variant<Hello, Credit, Acknowledgement, Report, ProfileUpdate, Heartbeat, Leave, Welcome,
                 Refusal, MicrobatchHeader, FragmentHeader, EpochEnd, Failure, Notice,
                 MicrobatchInBlock, AttachMemory, PassBlock, ReleaseBlocks, DropBlock>;

/// Limits of what a reader accepts. A message beyond one of them is corrupt.
inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10;
/// Limit of a first frame; tensors follow in frames of their own.
inline constexpr std::int64_t kMaxMessageBytes = 64 * kMiB;
inline constexpr std::size_t kMaxTensors = 64;
inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::size_t kMaxSamples = std::size_t{1} << 16;
inline constexpr std::uint32_t kMaxCredit = 1024;        ///< Microbatches in one message.
inline constexpr std::size_t kMaxReleasedBlocks = 1024;  ///< In one message.

/// Returns the first frame of a message. Keys, parts and JSON texts beyond their limits (see
/// SampleEntry) are left out. Pure.
std::vector<std::byte> encode(const Message& message);

/// Parses a first frame, which may be hostile. Pure. Errors: kCorrupt (not this protocol,
/// truncated, too long, or a value out of range), kUnsupported (another protocol version; refusals
/// are read in any version).
Result<Message> decode(std::span<const std::byte> frame);

/// Returns the size of a tensor. Errors: kCorrupt if a dimension is negative or the product
/// overflows.
Result<std::int64_t> tensor_bytes(const TensorSpec& spec);

}  // namespace isocost
