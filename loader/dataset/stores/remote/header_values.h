#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/byte_range.h"

namespace isocost {

/// The value of a Content-Range header. "bytes */9" has no range, "bytes 0-3/*" no total.
struct ContentRange {
  std::optional<ByteRange> range;
  std::optional<std::int64_t> total;
};

// Each of these reads the value of a header, which a server may write as it likes, and returns
// nothing for a value that does not keep to RFC 9110.

/// Reads a Content-Range in bytes. A returned range is not empty, and ends within the total.
std::optional<ContentRange> parse_content_range(std::string_view value);

/// Reads a Content-Length.
std::optional<std::int64_t> parse_content_length(std::string_view value);

/// Reads a date in any of HTTP's three forms as seconds since 1970.
std::optional<std::int64_t> parse_http_date(std::string_view value);

/// Reads a Retry-After, as the time to wait from `now_s` (seconds since 1970) on: at most a day,
/// and 0 for a date that has passed.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::int64_t now_s);

/// Returns whether an ETag is one that If-Match compares: quoted, and not weak.
bool is_strong_etag(std::string_view value);

}  // namespace isocost
