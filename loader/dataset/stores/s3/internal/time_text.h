#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace isocost {

/// Returns a time as "20261130T010203Z".
std::string basic_iso8601(std::chrono::sys_seconds time);

/// Reads "2026-11-30T01:02:03Z", also with a fraction of the second, which is dropped, and with
/// "+00:00" or another offset in place of the Z. Nothing: another text.
std::optional<std::chrono::sys_seconds> parse_iso8601(std::string_view text);

}  // namespace isocost
