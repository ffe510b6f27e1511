// For any bytes as JSON: an error, or a value that is the same after it is written and read again.
// The reader and another parser read the same values, up to the limits of depth and members.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "loader/dataset/records/internal/json_value.h"

namespace {

constexpr std::size_t kDepth = 64;

bool is_a_limit(std::string_view message) {
  return message.starts_with("nests more than") ||
         message.starts_with("has an object of more than");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = isocost::parse_json_value(text, kDepth);
  const Json expected = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  // To the other parser a text ends at a zero byte.
  if (!expected.is_discarded() && text.find('\0') == text.npos) {
    if (!read && !is_a_limit(read.error().message())) std::abort();
    if (read && *read != expected) std::abort();
  }
  if (!read) return 0;
  const std::string written = isocost::json_text(*read);
  const auto again = isocost::parse_json_value(written, kDepth);
  if (!again || isocost::json_text(*again) != written) std::abort();
  return 0;
}
