#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace isocost {

/// Answers ZeroMQ's requests whether a client with a given public key, or with the job key, may
/// connect (ZAP, https://rfc.zeromq.org/spec/27/). Create it before the socket that it guards is
/// bound, and keep it while the socket is bound. Single-thread.
class KeyGate {
 public:
  /// Admits clients with one of these public keys.
  KeyGate(zmq::context_t& context, const std::vector<std::string>& allowed);
  /// Admits clients that show the job key, as a password of ZeroMQ's PLAIN mechanism.
  KeyGate(zmq::context_t& context, std::string job_key);
  zmq::socket_t& socket() { return socket_; }
  /// Answers one request that has arrived. Returns the reason and the address if a client was
  /// refused.
  std::optional<std::string> answer();

 private:
  bool admits(const std::vector<zmq::message_t>& request) const;

  std::set<std::string> allowed_;
  std::string job_key_;
  zmq::socket_t socket_;
};

}  // namespace isocost
