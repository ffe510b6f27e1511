#include "transport/internal/lost_peers.h"

#include <algorithm>

namespace isocost {

// ZeroMQ's own heartbeats would serve, too, but libzmq aborts if one is due after the end of a
// connection that a closed socket still has messages for (4.3.4, stream_engine_base.cpp,
// "!_io_error").
void close_lost_connections(zmq::socket_t& socket, std::chrono::milliseconds time_out) {
  // TCP_USER_TIMEOUT: for data that is not acknowledged, and for probes in the place of a number of
  // them (tcp(7)), so that none is set.
  socket.set(zmq::sockopt::tcp_maxrt, static_cast<int>(time_out.count()));
  const auto seconds = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(time_out).count());
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, std::max(1, seconds / 2));
  socket.set(zmq::sockopt::tcp_keepalive_intvl, std::max(1, seconds / 10));
}

}  // namespace isocost
