#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Checks that `value` is within [least, most]. Errors: kInvalidArgument with the field's name, its
/// value and the range.
Status check_range(std::string_view field, std::int64_t value, std::int64_t least,
                   std::int64_t most);

/// Checks a time that users give in seconds; the message is in seconds as well.
Status check_range(std::string_view field, std::chrono::milliseconds value,
                   std::chrono::milliseconds least, std::chrono::milliseconds most);

/// Returns a time as text in seconds: "30 s", "0.25 s".
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace isocost
