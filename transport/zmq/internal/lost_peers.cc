#include "transport/zmq/internal/lost_peers.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr int kLongestIdle = 32767;  // seconds; Linux takes no more

}  // namespace

// Uses TCP's time-outs instead of ZeroMQ's heartbeats, because libzmq aborts if a heartbeat is due
// after the end of a connection that a closed socket still has messages for (4.3.4,
// stream_engine_base.cpp, "!_io_error").
void close_lost_connections(zmq::socket_t& socket, std::chrono::milliseconds time_out) {
  // Sets TCP_USER_TIMEOUT, which limits how long data may stay unacknowledged. It also takes the
  // place of a number of probes (tcp(7)), so no number is set.
  socket.set(zmq::sockopt::tcp_maxrt, static_cast<int>(time_out.count()));
  const auto seconds = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(time_out).count());
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, std::clamp(seconds / 2, 1, kLongestIdle));
  socket.set(zmq::sockopt::tcp_keepalive_intvl, std::max(1, seconds / 10));
}

}  // namespace isocost
