#include "transport/wire/internal/session_messages.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "transport/wire/internal/message_fields.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

void put_start(ByteWriter& out, const StartPoint& start) {
  out.put(start.cursor);
  out.put(start.epoch);
  out.put(start.step);
  put_cost_model_state(out, start.cost_model_state);
  out.put_text<std::uint32_t>(start.mixture);
  out.put(start.state_version);
}

StartPoint get_start(ByteReader& in) {
  StartPoint start;
  start.cursor = in.get<std::uint64_t>();
  start.epoch = in.get<std::uint32_t>();
  start.step = in.get<std::uint32_t>();
  start.cost_model_state = get_cost_model_state(in);
  start.mixture = in.get_text<std::uint32_t>(kMaxMixtureBytes);
  if (!is_utf8(start.mixture)) in.fail();
  start.state_version = in.get<std::uint16_t>();
  return start;
}

}  // namespace

MessageType put(ByteWriter& out, const Hello& hello) {
  out.put(hello.rank);
  out.put(hello.world_size);
  out.put_bytes(hello.client_id);
  out.put(static_cast<std::uint8_t>(hello.has_position));
  put_position(out, hello.position);
  out.put(hello.job);
  out.put(static_cast<std::uint8_t>(hello.has_start));
  put_start(out, hello.start);
  out.put_text<std::uint8_t>(std::string_view(hello.hardware).substr(0, kMaxHardwareBytes));
  out.put(hello.layout);
  return MessageType::kHello;
}

Hello get_hello(ByteReader& in) {
  Hello hello;
  hello.rank = in.get<std::int32_t>();
  hello.world_size = in.get<std::int32_t>();
  in.get_bytes(hello.client_id);
  hello.has_position = in.get<std::uint8_t>() != 0;
  hello.position = get_position(in);
  hello.job = in.get<std::uint64_t>();
  hello.has_start = in.get<std::uint8_t>() != 0;
  hello.start = get_start(in);
  hello.hardware = in.get_text<std::uint8_t>(kMaxHardwareBytes);
  // The name is printed, and control characters would reach a terminal.
  for (char& c : hello.hardware) c = c >= ' ' && c < 127 ? c : '?';
  hello.layout = in.get<std::uint64_t>();
  return hello;
}

MessageType put(ByteWriter& out, const Welcome& welcome) {
  out.put(welcome.ranks);
  out.put(welcome.node_id);
  out.put(welcome.session);
  out.put(welcome.job);
  put_start(out, welcome.start);
  out.put(welcome.dataset_fingerprint);
  out.put(welcome.recipe_fingerprint);
  out.put(welcome.samples_per_epoch);
  out.put(welcome.steps_per_epoch);
  out.put(welcome.epochs);
  out.put(welcome.global_batch_size);
  out.put(welcome.microbatches);
  out.put(welcome.heartbeat_ms);
  out.put(welcome.heartbeat_timeout_ms);
  out.put_text<std::uint8_t>(welcome.shared_memory.socket);
  out.put_bytes(welcome.shared_memory.token);
  out.put(welcome.weighted_samples);
  const bool fits = welcome.first_weighted.size() <= kMaxSampleKeyBytes;
  out.put_text<std::uint16_t>(fits ? welcome.first_weighted : std::string());
  out.put(welcome.first_weight);
  out.put(welcome.padded_multiple);
  out.put(static_cast<std::uint8_t>(welcome.has_length));
  return MessageType::kWelcome;
}

Welcome get_welcome(ByteReader& in) {
  Welcome welcome;
  welcome.ranks = in.get<std::int32_t>();
  welcome.node_id = in.get<std::uint64_t>();
  welcome.session = in.get<std::uint64_t>();
  welcome.job = in.get<std::uint64_t>();
  welcome.start = get_start(in);
  welcome.dataset_fingerprint = in.get<std::uint64_t>();
  welcome.recipe_fingerprint = in.get<std::uint64_t>();
  welcome.samples_per_epoch = in.get<std::uint64_t>();
  welcome.steps_per_epoch = in.get<std::uint32_t>();
  welcome.epochs = in.get<std::uint32_t>();
  welcome.global_batch_size = in.get<std::uint32_t>();
  welcome.microbatches = in.get<std::uint32_t>();
  welcome.heartbeat_ms = in.get<std::uint32_t>();
  welcome.heartbeat_timeout_ms = in.get<std::uint32_t>();
  welcome.shared_memory.socket = in.get_text<std::uint8_t>(kMaxNameBytes);
  in.get_bytes(welcome.shared_memory.token);
  welcome.weighted_samples = in.get<std::uint64_t>();
  welcome.first_weighted = printable_utf8(in.get_text<std::uint16_t>(kMaxSampleKeyBytes));
  welcome.first_weight = in.get<float>();
  welcome.padded_multiple = in.get<std::uint32_t>();
  welcome.has_length = in.get<std::uint8_t>() != 0;
  if (!welcome.has_length && (welcome.samples_per_epoch > 0 || welcome.steps_per_epoch > 0))
    in.fail();
  if (!(welcome.first_weight >= 0 && welcome.first_weight <= 3e38F)) in.fail();
  if (!welcome.shared_memory.socket.empty() && !is_name(welcome.shared_memory.socket)) in.fail();
  if (welcome.ranks < 1 || welcome.heartbeat_ms == 0 || welcome.heartbeat_timeout_ms == 0)
    in.fail();
  return welcome;
}

MessageType put(ByteWriter& out, const Refusal& refusal) {
  put_error(out, refusal);
  return MessageType::kRefusal;
}

Refusal get_refusal(ByteReader& in) { return get_error<Refusal>(in); }

MessageType put(ByteWriter& /*out*/, const Heartbeat& /*heartbeat*/) {
  return MessageType::kHeartbeat;
}
MessageType put(ByteWriter& /*out*/, const Leave& /*leave*/) { return MessageType::kLeave; }

}  // namespace isocost
