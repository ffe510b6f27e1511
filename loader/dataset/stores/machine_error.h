#pragma once

#include "base/result.h"

namespace isocost {

/// Returns whether the machine is at fault (a file that cannot be opened or read, a full disk, no
/// free descriptor, a file that changed), and not the data or the call: the same attempt may
/// succeed later.
constexpr bool is_machine_error(ErrorCode code) {
  return code == ErrorCode::kIo || code == ErrorCode::kNotFound || code == ErrorCode::kUnavailable;
}

}  // namespace isocost
