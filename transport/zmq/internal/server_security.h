#pragma once

#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "base/result.h"
#include "transport/zmq/internal/key_gate.h"
#include "transport/zmq/keys.h"
#include "transport/zmq/server.h"

namespace isocost {

/// Who may connect to a server.
struct ServerSecurity {
  std::optional<KeyPair> keys;                      ///< Empty: every client may connect.
  std::optional<std::vector<std::string>> allowed;  ///< Empty: every client with the node's key.
  std::string job_key;                              ///< Empty: none is asked for.
};

/// Reads the keys that the options name, and makes a job key where clients of the same user find
/// it. Errors: kInvalidArgument for an address beyond loopback without keys, and for unreadable
/// keys.
Result<ServerSecurity> read_security(const ServerOptions& options);

/// Has a socket ask its clients for keys. Call it before the socket is bound. Returns the gate that
/// answers which keys are admitted, to be kept while the socket is bound; empty if there is nothing
/// to answer.
std::optional<KeyGate> ask_for_keys(zmq::context_t& context, zmq::socket_t& socket,
                                    const ServerSecurity& security);

}  // namespace isocost
