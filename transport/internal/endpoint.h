#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Whether only this machine can reach a node that binds here. Errors: kInvalidArgument for what is
/// neither tcp://HOST:PORT nor ipc://PATH.
Result<bool> is_local_endpoint(std::string_view endpoint);

}  // namespace isocost
