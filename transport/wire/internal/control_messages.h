#pragma once

#include "transport/wire/internal/byte_codec.h"
#include "transport/wire/internal/message_type.h"
#include "transport/wire/messages.h"

namespace isocost {

// Messages about what was delivered and measured, and about blocks of shared memory: a `put` and a
// `get` each, with the fields in the order of docs/wire_format.md. `put` returns the type of the
// message.

MessageType put(ByteWriter& out, const Credit& credit);
Credit get_credit(ByteReader& in);

MessageType put(ByteWriter& out, const Acknowledgement& acknowledgement);
Acknowledgement get_acknowledgement(ByteReader& in);

MessageType put(ByteWriter& out, const Report& report);
Report get_report(ByteReader& in);

MessageType put(ByteWriter& out, const ProfileUpdate& profile_update);
ProfileUpdate get_profile_update(ByteReader& in);

MessageType put(ByteWriter& out, const EpochEnd& end);
EpochEnd get_epoch_end(ByteReader& in);

MessageType put(ByteWriter& out, const Failure& failure);
Failure get_failure(ByteReader& in);

MessageType put(ByteWriter& out, const Notice& notice);
Notice get_notice(ByteReader& in);

MessageType put(ByteWriter& out, const AttachMemory& attach);
AttachMemory get_attach_memory(ByteReader& in);

MessageType put(ByteWriter& out, const ReleaseBlocks& release);
ReleaseBlocks get_release_blocks(ByteReader& in);

MessageType put(ByteWriter& out, const PassBlock& pass);
PassBlock get_pass_block(ByteReader& in);

MessageType put(ByteWriter& out, const DropBlock& drop);
DropBlock get_drop_block(ByteReader& in);

}  // namespace isocost
