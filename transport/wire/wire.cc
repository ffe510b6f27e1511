#include "transport/wire/wire.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/checked.h"
#include "transport/wire/internal/byte_codec.h"
#include "transport/wire/internal/control_messages.h"
#include "transport/wire/internal/message_type.h"
#include "transport/wire/internal/microbatch_messages.h"
#include "transport/wire/internal/session_messages.h"

namespace isocost {
namespace {

constexpr std::array<std::uint8_t, 4> kMagic = {'I', 'S', 'O', 'C'};

// Returns the error for another protocol version. Either side may need it, since a node also sends
// it in a refusal.
Error wrong_version(std::uint16_t version) {
  const auto [older, newer] = std::minmax(version, kProtocolVersion);
  return {ErrorCode::kUnsupported,
          "node and trainer run different versions of Isocost (wire format versions " +
              std::to_string(older) + " and " + std::to_string(newer) +
              "): update the side that uses version " + std::to_string(older)};
}

Result<Message> get_body(MessageType type, ByteReader& in) {
  switch (type) {
    case MessageType::kHello:
      return Message(get_hello(in));
    case MessageType::kCredit:
      return Message(get_credit(in));
    case MessageType::kAcknowledgement:
      return Message(get_acknowledgement(in));
    case MessageType::kReport:
      return Message(get_report(in));
    case MessageType::kProfileUpdate:
      return Message(get_profile_update(in));
    case MessageType::kHeartbeat:
      return Message(Heartbeat{});
    case MessageType::kLeave:
      return Message(Leave{});
    case MessageType::kAttachMemory:
      return Message(get_attach_memory(in));
    case MessageType::kReleaseBlocks:
      return Message(get_release_blocks(in));
    case MessageType::kWelcome:
      return Message(get_welcome(in));
    case MessageType::kRefusal:
      return Message(get_refusal(in));
    case MessageType::kMicrobatch:
      return Message(get_microbatch(in));
    case MessageType::kFragment:
      return Message(get_fragment(in));
    case MessageType::kEpochEnd:
      return Message(get_epoch_end(in));
    case MessageType::kFailure:
      return Message(get_failure(in));
    case MessageType::kNotice:
      return Message(get_notice(in));
    case MessageType::kMicrobatchInBlock:
      return Message(get_microbatch_in_block(in));
    case MessageType::kPassBlock:
      return Message(get_pass_block(in));
    case MessageType::kDropBlock:
      return Message(get_drop_block(in));
  }
  return Error(ErrorCode::kCorrupt,
               "message of unknown type " + std::to_string(static_cast<int>(type)));
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  ByteWriter body;
  const MessageType type = std::visit([&](const auto& value) { return put(body, value); }, message);
  ByteWriter frame;
  frame.put_bytes(kMagic);
  frame.put(kProtocolVersion);
  frame.put(static_cast<std::uint8_t>(type));
  frame.put(std::uint8_t{0});
  std::vector<std::byte> bytes = frame.take();
  const std::vector<std::byte> rest = body.take();
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Result<Message> decode(std::span<const std::byte> frame) {
  ByteReader in(frame);
  std::array<std::uint8_t, 4> magic{};
  in.get_bytes(magic);
  const auto version = in.get<std::uint16_t>();
  const auto type = static_cast<MessageType>(in.get<std::uint8_t>());
  in.get<std::uint8_t>();  // reserved
  if (!in.ok() || magic != kMagic) {
    return Error(ErrorCode::kCorrupt, "not a message of the Isocost protocol");
  }
  // A refusal has the same fields in every version, so that either side can read why.
  if (version != kProtocolVersion && type != MessageType::kRefusal) return wrong_version(version);
  ISOCOST_ASSIGN(Message message, get_body(type, in));
  if (!in.at_end()) {
    return Error(ErrorCode::kCorrupt, "message of type " + std::to_string(static_cast<int>(type)) +
                                          ", " + std::to_string(frame.size()) +
                                          " bytes: cut off, too long or out of range");
  }
  return message;
}

Result<std::int64_t> tensor_bytes(const TensorSpec& spec) {
  std::int64_t bytes = dtype_size(spec.dtype);
  for (const std::int64_t extent : spec.shape) {
    const auto product = checked_product(bytes, extent);
    if (!product) return Error(ErrorCode::kCorrupt, spec.name + ": impossible shape");
    bytes = *product;
  }
  return bytes;
}

}  // namespace isocost
