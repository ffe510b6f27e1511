#pragma once

#include <cstdint>
#include <memory>
#include <vector>
#include <zmq.hpp>

#include "transport/messages.h"

namespace isocost {

/// Tensor bytes in one message, at most. What is larger goes in pieces: the receiver copies a piece
/// to its place while it is still in a cache, and ZeroMQ finds memory of that size again instead of
/// asking the kernel for fresh pages.
inline constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;

/// The messages that carry a fragment, in order. Frames point into the tensors, which they keep
/// alive together with `keep`; small ones are copied, which is cheaper.
std::vector<std::vector<zmq::message_t>> fragment_messages(const Fragment& fragment,
                                                           const std::shared_ptr<const void>& keep);

}  // namespace isocost
