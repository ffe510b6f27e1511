#pragma once

#include "transport/wire/internal/byte_codec.h"
#include "transport/wire/internal/message_type.h"
#include "transport/wire/messages.h"

namespace isocost {

// Messages with which a client joins and leaves a node: a `put` and a `get` each, with the fields
// in the order of docs/wire_format.md. `put` returns the type of the message.

MessageType put(ByteWriter& out, const Hello& hello);
Hello get_hello(ByteReader& in);

MessageType put(ByteWriter& out, const Welcome& welcome);
Welcome get_welcome(ByteReader& in);

MessageType put(ByteWriter& out, const Refusal& refusal);
Refusal get_refusal(ByteReader& in);

MessageType put(ByteWriter& out, const Heartbeat& heartbeat);
MessageType put(ByteWriter& out, const Leave& leave);

}  // namespace isocost
