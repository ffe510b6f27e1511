#pragma once

#include <set>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace isocost {

/// Answers ZeroMQ's question whether a client's public key is let in (ZAP,
/// https://rfc.zeromq.org/spec/27/). Single-thread; bound for as long as it lives, and must be
/// before the socket that it guards.
class KeyGate {
 public:
  KeyGate(zmq::context_t& context, const std::vector<std::string>& allowed);
  zmq::socket_t& socket() { return socket_; }
  void answer();  ///< One request that waits.

 private:
  std::set<std::string> allowed_;
  zmq::socket_t socket_;
};

}  // namespace isocost
