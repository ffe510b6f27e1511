#include "base/result.h"

#include <array>
#include <cstddef>
#include <utility>

namespace isocost {

std::string_view error_code_name(ErrorCode code) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "invalid_argument",   "not_found",    "already_exists",    "corrupt",   "unsupported",
      "resource_exhausted", "unavailable",  "deadline_exceeded", "cancelled", "io",
      "internal",           "out_of_memory"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames.at(index) : "unknown";
}

Error::Error(ErrorCode code, std::string message, std::source_location where)
    : code_(code), message_(std::move(message)), where_(where) {}

Error Error::with_context(std::string_view context) && {
  message_.insert(0, ": ");
  message_.insert(0, context);
  return std::move(*this);
}

std::string Error::to_string() const {
  std::string text(error_code_name(code_));
  text += ": ";
  text += message_;
  return text;
}

}  // namespace isocost
