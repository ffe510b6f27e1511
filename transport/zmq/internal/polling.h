#pragma once

#include <chrono>
#include <span>
#include <zmq.hpp>

namespace isocost {

/// Blocks all signals in the calling thread except those of its own faults, so that the program's
/// own threads handle them and they do not interrupt this thread's waits.
void block_signals();

/// Blocks until an item is ready or `most` has passed. An interrupted wait returns early.
void poll_items(std::span<zmq::pollitem_t> items, std::chrono::milliseconds most);

}  // namespace isocost
