#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

inline constexpr std::string_view kTcp = "tcp://";

/// Returns whether only this machine can reach a node that binds to `endpoint`. Errors:
/// kInvalidArgument unless it is tcp://HOST:PORT or ipc://PATH.
Result<bool> is_local_endpoint(std::string_view endpoint);

/// Checks that a node may bind ipc://PATH; other endpoints pass. ZeroMQ would remove any file at
/// PATH, even the socket of a running node. Only a socket of this user without a listener may be
/// replaced. Errors: kAlreadyExists.
Status check_path_is_free(std::string_view endpoint);

/// Removes the socket file of an endpoint that this process has bound; ZeroMQ leaves it behind.
void remove_path(std::string_view endpoint);

}  // namespace isocost
