#pragma once

#include "transport/wire/internal/byte_codec.h"
#include "transport/wire/internal/message_type.h"
#include "transport/wire/messages.h"

namespace isocost {

// Messages that carry microbatches: a `put` and a `get` each, with the fields in the order of
// docs/wire_format.md. `put` returns the type of the message.

MessageType put(ByteWriter& out, const MicrobatchHeader& header);
MicrobatchHeader get_microbatch(ByteReader& in);

MessageType put(ByteWriter& out, const FragmentHeader& fragment);
FragmentHeader get_fragment(ByteReader& in);

MessageType put(ByteWriter& out, const MicrobatchInBlock& microbatch);
MicrobatchInBlock get_microbatch_in_block(ByteReader& in);

}  // namespace isocost
