#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

#include "base/result.h"

namespace isocost {

/// Calls `ask` for each number below `count`, on up to `most` threads at once, which may wait for a
/// server. Blocks until all have returned. Errors: the first one of `ask`, after which the stop
/// that it is given fires and no more is asked; kCancelled (`stop`).
Status ask_at_once(std::size_t count, std::size_t most, const std::stop_token& stop,
                   const std::function<Status(std::size_t, const std::stop_token&)>& ask);

}  // namespace isocost
