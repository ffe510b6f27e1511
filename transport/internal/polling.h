#pragma once

#include <chrono>
#include <span>
#include <zmq.hpp>

namespace isocost {

/// Keeps the calling thread out of the program's signal handling: a signal that it took would
/// interrupt its waits, and belongs to the program's own threads anyway.
void block_signals();

/// Waits until an item is ready or the time is over. An interrupted wait is one that ended early.
void poll_items(std::span<zmq::pollitem_t> items, std::chrono::milliseconds most);

}  // namespace isocost
