#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "base/result.h"

namespace isocost {

/// Returns errno's error, "ACTION: reason", as kUnavailable.
inline Error last_error(const char* action) {
  return {ErrorCode::kUnavailable,
          std::string(action) + ": " + std::generic_category().message(errno)};
}

}  // namespace isocost
