#pragma once

#include <cstdint>
#include <memory>
#include <vector>
#include <zmq.hpp>

#include "transport/wire/messages.h"

namespace isocost {

/// Maximum tensor bytes of one message. Larger tensors are sent in pieces: the receiver copies a
/// piece to its place while it is still in a cache, and ZeroMQ reuses memory of that size instead
/// of asking the kernel for fresh pages.
inline constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;

/// Returns the messages of a fragment, in order. Frames point into the tensors and keep them and
/// `keep` alive; small ones are copied, which is cheaper.
std::vector<std::vector<zmq::message_t>> fragment_messages(const Fragment& fragment,
                                                           const std::shared_ptr<const void>& keep);

}  // namespace isocost
