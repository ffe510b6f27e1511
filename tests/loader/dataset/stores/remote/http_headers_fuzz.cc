// For any bytes of a header, parsing ends, and what it returns keeps its promises.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "loader/dataset/stores/remote/header_values.h"

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

// Written out and read again, a range is the same.
void expect_same_again(const isocost::ContentRange& parsed) {
  const std::string range = parsed.range ? std::to_string(parsed.range->begin) + "-" +
                                               std::to_string(parsed.range->end - 1)
                                         : "*";
  const std::string total = parsed.total ? std::to_string(*parsed.total) : "*";
  const auto again = isocost::parse_content_range("bytes " + range + "/" + total);
  expect(again.has_value());
  expect(again->total == parsed.total && again->range.has_value() == parsed.range.has_value());
  if (!parsed.range) return;
  expect(again->range->begin == parsed.range->begin && again->range->end == parsed.range->end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view value(reinterpret_cast<const char*>(data), size);
  if (const auto parsed = isocost::parse_content_range(value)) {
    expect(parsed->range || parsed->total);
    if (parsed->range) {
      expect(parsed->range->begin >= 0 && parsed->range->bytes() > 0);
      expect(!parsed->total || parsed->range->end <= *parsed->total);
    }
    expect_same_again(*parsed);
  }
  if (const auto length = isocost::parse_content_length(value)) expect(*length >= 0);
  if (const auto date = isocost::parse_http_date(value)) expect(*date >= 0);
  if (const auto wait = isocost::parse_retry_after(value, 1'700'000'000)) {
    expect(wait->count() >= 0 && wait->count() <= 86400);
  }
  if (isocost::is_strong_etag(value)) {
    expect(value.size() >= 2 && value.find_first_of("\r\n ") == std::string_view::npos);
  }
  return 0;
}
