#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Whether only this machine can reach a node that binds here. Errors: kInvalidArgument for what is
/// neither tcp://HOST:PORT nor ipc://PATH.
Result<bool> is_local_endpoint(std::string_view endpoint);

/// Whether a node may bind this endpoint's path, where it is ipc://PATH: ZeroMQ removes whatever is
/// there, be it a file or the socket of a node that runs. Only a socket of ours that nobody listens
/// on may go. Errors: kAlreadyExists.
Status check_path_is_free(std::string_view endpoint);

/// Removes the socket file of an endpoint that was bound here; ZeroMQ leaves it behind.
void remove_path(std::string_view endpoint);

}  // namespace isocost
