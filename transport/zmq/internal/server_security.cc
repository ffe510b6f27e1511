#include "transport/zmq/internal/server_security.h"

#include "transport/zmq/internal/endpoint.h"
#include "transport/zmq/internal/job_key.h"

namespace isocost {

Result<ServerSecurity> read_security(const ServerOptions& options) {
  ServerSecurity security;
  const auto local = is_local_endpoint(options.bind);
  if (!local) {
    return Error(local.error().code(),
                 "bind: " + local.error().message() + "; port * picks a free one");
  }
  if (options.curve_key.empty()) {
    if (!options.curve_clients.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   "curve_clients needs curve_key: clients are recognised by their CURVE keys");
    }
    if (options.insecure) return security;
    if (*local) {
      // Permissions of the path decide who may use an ipc:// endpoint.
      if (options.bind.starts_with("tcp://")) security.job_key = make_job_key();
      return security;
    }
    return Error(ErrorCode::kInvalidArgument,
                 "bind: " + options.bind +
                     " is open to everybody who reaches it: set curve_key to a key file (`isocost "
                     "keygen` writes one), or insecure to accept that");
  }
  ISOCOST_ASSIGN(security.keys, read_secret_key(options.curve_key));
  if (!options.curve_clients.empty()) {
    ISOCOST_ASSIGN(security.allowed, read_allowed_keys(options.curve_clients));
  }
  return security;
}

std::optional<KeyGate> ask_for_keys(zmq::context_t& context, zmq::socket_t& socket,
                                    const ServerSecurity& security) {
  std::optional<KeyGate> gate;
  if (!security.job_key.empty()) {
    gate.emplace(context, security.job_key);
    socket.set(zmq::sockopt::plain_server, true);
  } else if (security.keys) {
    if (security.allowed) gate.emplace(context, *security.allowed);
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_publickey, security.keys->public_key);
    socket.set(zmq::sockopt::curve_secretkey, security.keys->secret_key);
  }
  if (gate) socket.set(zmq::sockopt::zap_domain, "isocost");
  return gate;
}

}  // namespace isocost
