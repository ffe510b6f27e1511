#include "loader/dataset/stores/remote/header_values.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace isocost {
namespace {

// Longer than any date that HTTP writes.
constexpr std::size_t kLongestDate = 64;
constexpr std::int64_t kLongestWait = 86'400;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// Reads digits alone: no sign, no blank, no number that overflows.
std::optional<std::int64_t> parse_digits(std::string_view text) {
  if (!all_digits(text)) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool equal_but_for_case(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

std::optional<ByteRange> parse_first_and_last(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_digits(text.substr(0, dash));
  const auto last = parse_digits(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last == INT64_MAX) return std::nullopt;
  return ByteRange{*first, *last + 1};
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view value) {
  value = trimmed(value);
  const std::size_t blank = value.find(' ');
  if (blank == std::string_view::npos || !equal_but_for_case(value.substr(0, blank), "bytes")) {
    return std::nullopt;
  }
  value = trimmed(value.substr(blank));
  const std::size_t slash = value.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view range = value.substr(0, slash);
  const std::string_view total = value.substr(slash + 1);

  ContentRange parsed;
  if (total != "*") {
    parsed.total = parse_digits(total);
    if (!parsed.total) return std::nullopt;
  }
  if (range == "*") return parsed.total ? std::optional(parsed) : std::nullopt;
  parsed.range = parse_first_and_last(range);
  if (!parsed.range || (parsed.total && parsed.range->end > *parsed.total)) return std::nullopt;
  return parsed;
}

std::optional<std::int64_t> parse_content_length(std::string_view value) {
  return parse_digits(trimmed(value));
}

std::optional<std::int64_t> parse_http_date(std::string_view value) {
  value = trimmed(value);
  // libcurl reads far more forms than HTTP's, also numbers alone, which are none of them.
  if (value.size() > kLongestDate || value.find(':') == std::string_view::npos) return std::nullopt;
  const bool printable =
      std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!printable) return std::nullopt;
  const auto seconds = curl_getdate(std::string(value).c_str(), nullptr);
  if (seconds < 0) return std::nullopt;
  return seconds;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::int64_t now_s) {
  value = trimmed(value);
  if (all_digits(value)) {
    // A number that overflows is a long wait, too.
    return std::chrono::seconds(std::min(parse_digits(value).value_or(kLongestWait), kLongestWait));
  }
  const auto date = parse_http_date(value);
  if (!date || now_s < 0) return std::nullopt;
  return std::chrono::seconds(std::clamp<std::int64_t>(*date - now_s, 0, kLongestWait));
}

bool is_strong_etag(std::string_view value) {
  if (value.size() < 2 || !value.starts_with('"') || !value.ends_with('"')) return false;
  const std::string_view inside = value.substr(1, value.size() - 2);
  return std::all_of(inside.begin(), inside.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '"' && c != '\x7f';
  });
}

}  // namespace isocost
