#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace isocost {

/// The kind of a failure. Callers branch on the code; people read the message.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,    ///< A call or an option is invalid and must be changed.
  kNotFound,           ///< A file, key or rank that should exist does not.
  kAlreadyExists,      ///< A key, rank or address that should be free is taken.
  kCorrupt,            ///< Bytes from outside are truncated, inconsistent, or not what they claim.
  kUnsupported,        ///< Bytes from outside are of a kind or version that Isocost does not read.
  kResourceExhausted,  ///< A limit (pixels, bytes, memory budget) would be exceeded.
  kUnavailable,        ///< A peer, port or file cannot be reached now; a retry may help.
  kDeadlineExceeded,   ///< The wait ended before the event.
  kCancelled,          ///< The caller requested a stop.
  kIo,                 ///< The operating system refused a read or a write.
  kInternal,           ///< A bug in Isocost.
  kOutOfMemory,        ///< This machine has no memory left.
};

/// Returns the code's name in logs and JSON, for example "corrupt".
std::string_view error_code_name(ErrorCode code);

/// A failure: its kind, a message that says what is wrong and what to do, and where it was raised.
/// Value type; const-safe.
class Error {
 public:
  Error(ErrorCode code, std::string message,
        std::source_location where = std::source_location::current());

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::source_location& where() const { return where_; }

  /// Returns this error with the message "context: message".
  Error with_context(std::string_view context) &&;

  /// Returns "corrupt: shard-000.tar: cat.png: ...", without the source location.
  std::string to_string() const;

 private:
  ErrorCode code_;
  std::string message_;
  std::source_location where_;
};

/// A value, or the error that prevented it. Has the interface of `std::expected`, which g++ 12
/// offers only beyond C++20. Unlike with `tl::expected`, dropping a result is a compiler warning.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error)  // NOLINT(google-explicit-constructor): `return Error(...)` is the idiom.
      : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

using Status = Result<void>;

#define ISOCOST_CONCAT_INNER(a, b) a##b
#define ISOCOST_CONCAT(a, b) ISOCOST_CONCAT_INNER(a, b)

/// Evaluates a Result and, on failure, returns its error from the enclosing function.
#define ISOCOST_TRY(expression)                                            \
  do {                                                                     \
    if (auto isocost_result = (expression); !isocost_result.has_value()) { \
      return std::move(isocost_result).error();                            \
    }                                                                      \
  } while (false)

/// Does what ISOCOST_TRY does, with `context` put before the error's message.
#define ISOCOST_TRY_CONTEXT(expression, context)                           \
  do {                                                                     \
    if (auto isocost_result = (expression); !isocost_result.has_value()) { \
      return std::move(isocost_result).error().with_context(context);      \
    }                                                                      \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): `declaration` may declare a variable.
/// `ISOCOST_ASSIGN(auto x, f());` declares x with a Result's value, or returns its error.
#define ISOCOST_ASSIGN(declaration, expression) \
  ISOCOST_ASSIGN_INNER(ISOCOST_CONCAT(isocost_result_, __LINE__), declaration, expression)
#define ISOCOST_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                                 \
  if (!result.has_value()) return std::move(result).error();  \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace isocost
