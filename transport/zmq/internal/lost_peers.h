#pragma once

#include <chrono>
#include <zmq.hpp>

namespace isocost {

/// Makes the system close each TCP connection of a socket whose peer, such as a host without power,
/// has answered nothing for `time_out`: neither to sent data nor, if nothing is sent, to the
/// system's probes. Call it before the socket is bound or connected. A stopped process still
/// answers while its system has room for what it does not read.
void close_lost_connections(zmq::socket_t& socket, std::chrono::milliseconds time_out);

}  // namespace isocost
