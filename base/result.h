#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace isocost {

/// What kind of thing went wrong. Callers branch on the code; people read the message.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  ///< The caller asked for something that cannot be: fix the call or the flag.
  kNotFound,         ///< A file, key or rank that should exist does not.
  kAlreadyExists,    ///< A key, rank or address that should be free is taken.
  kCorrupt,          ///< Outside bytes are broken: truncated, inconsistent, or not what they claim.
  kUnsupported,  ///< Outside bytes are well formed but of a kind or version that we do not read.
  kResourceExhausted,  ///< A limit (pixels, bytes, memory budget) would be exceeded.
  kUnavailable,        ///< A peer, port or file cannot be reached now; trying again may help.
  kDeadlineExceeded,   ///< The wait ended before the event.
  kCancelled,          ///< The owner asked to stop.
  kIo,                 ///< The operating system refused a read or a write.
  kInternal,           ///< A bug of ours.
};

/// The code's name as it appears in logs, JSON and on the wire, e.g. "corrupt".
std::string_view error_code_name(ErrorCode code);

/// True where the same call may succeed later without anybody changing anything.
bool is_retryable(ErrorCode code);

/// A failure: its kind, a message that says what is wrong and what to do, and where it was raised.
/// Value type; const-safe.
class Error {
 public:
  Error(ErrorCode code, std::string message,
        std::source_location where = std::source_location::current());

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::source_location& where() const { return where_; }

  /// Returns this error with `context` put before its message: "context: message".
  Error with_context(std::string_view context) &&;

  /// "corrupt: shard-000.tar: cat.png: ..." for people; the source location is left to debug logs.
  std::string to_string() const;

 private:
  ErrorCode code_;
  std::string message_;
  std::source_location where_;
};

/// A value or the reason there is none. Keeps to the interface of `std::expected`, which g++ 12
/// offers only beyond C++20; unlike `tl::expected` a dropped result is a compiler warning.
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

/// Evaluates a Result; on failure returns its error from the enclosing function.
#define ISOCOST_TRY(expression)                                            \
  do {                                                                     \
    if (auto isocost_result = (expression); !isocost_result.has_value()) { \
      return std::move(isocost_result).error();                            \
    }                                                                      \
  } while (false)

/// As ISOCOST_TRY, with `context` put before the message on the way up.
#define ISOCOST_TRY_CONTEXT(expression, context)                           \
  do {                                                                     \
    if (auto isocost_result = (expression); !isocost_result.has_value()) { \
      return std::move(isocost_result).error().with_context(context);      \
    }                                                                      \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): `declaration` may declare a variable.
/// `ISOCOST_ASSIGN(auto x, f());` declares x from a Result's value or returns its error.
#define ISOCOST_ASSIGN(declaration, expression) \
  ISOCOST_ASSIGN_INNER(ISOCOST_CONCAT(isocost_result_, __LINE__), declaration, expression)
#define ISOCOST_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                                 \
  if (!result.has_value()) return std::move(result).error();  \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace isocost
