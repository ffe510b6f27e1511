#pragma once

#include <chrono>
#include <zmq.hpp>

namespace isocost {

/// Has the system close each TCP connection of a socket whose peer answered nothing for `time_out`,
/// such as a host without power: to what was sent or, where nothing is sent, to the system's
/// probes. To be called before the socket is bound or connected. A process that is stopped answers
/// while its system has room for what it does not read.
void close_lost_connections(zmq::socket_t& socket, std::chrono::milliseconds time_out);

}  // namespace isocost
