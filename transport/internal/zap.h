#pragma once

#include <set>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace isocost {

/// Answers ZeroMQ's requests whether a client with a given public key may connect (ZAP,
/// https://rfc.zeromq.org/spec/27/). It must be bound before the socket that it guards, and is
/// bound while it lives. Single-thread.
class KeyGate {
 public:
  KeyGate(zmq::context_t& context, const std::vector<std::string>& allowed);
  zmq::socket_t& socket() { return socket_; }
  void answer();  ///< Answers one request that has arrived.

 private:
  std::set<std::string> allowed_;
  zmq::socket_t socket_;
};

}  // namespace isocost
