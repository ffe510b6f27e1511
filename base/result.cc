#include "base/result.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace isocost {

std::string_view error_code_name(ErrorCode code) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "invalid_argument",   "not_found",     "already_exists",    "corrupt",   "unsupported",
      "resource_exhausted", "unavailable",   "deadline_exceeded", "cancelled", "io",
      "internal",           "out_of_memory", "draining"};
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

Exception::Exception(Error error) : std::runtime_error(error.message()), error_(std::move(error)) {}

void throw_exception(const Error& error) { throw Exception(error); }

int exit_code(const Status& status) {
  if (status) return 0;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, status.error().message().c_str());
  return 1;
}

}  // namespace isocost
