#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "transport/messages.h"

namespace isocost {

/// Any message of the protocol: what its first frame says. See docs/wire_format.md.
using Message =
    std::variant<Hello, Credit, Acknowledgement, Report, ProfileUpdate, Heartbeat, Leave, Welcome,
                 Refusal, MicrobatchHeader, FragmentHeader, EpochEnd, Failure>;

/// Limits of what a reader accepts. A message beyond one of them is corrupt.
inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxTensors = 64;
inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::size_t kMaxSamples = std::size_t{1} << 16;
inline constexpr std::uint32_t kMaxCredit = 1024;  ///< Microbatches in one message.

/// The first frame of a message. Pure.
std::vector<std::byte> encode(const Message& message);

/// Reads a first frame from outside. Pure. Errors: kCorrupt (not ours, cut off, too long, out of
/// range), kUnsupported (another protocol version: both are named; refusals are read in any
/// version).
Result<Message> decode(std::span<const std::byte> frame);

/// Bytes of a tensor. Errors: kCorrupt where a dimension is negative or the product overflows.
Result<std::int64_t> tensor_bytes(const TensorSpec& spec);

}  // namespace isocost
