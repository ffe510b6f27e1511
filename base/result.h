#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
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
  kDraining,           ///< The node was asked to stop, and delivers nothing more.
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

/// An error as an exception: what a Result without a value throws when its value is asked for, and
/// what functions of isocost::TorchLoader throw. `what` is the error's message.
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error);

  ErrorCode code() const { return error_.code(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Throws the error as an Exception.
[[noreturn]] void throw_exception(const Error& error);

template <typename T>
class Result;

namespace internal {

template <typename T>
inline constexpr bool kIsResult = false;
template <typename T>
inline constexpr bool kIsResult<Result<T>> = true;

// A type that can become the value of a Result<T>: neither an error nor another result, which would
// be taken for the bool that it converts to.
template <typename U, typename T>
concept ValueOf = !kIsResult<std::remove_cvref_t<U>> &&
                  !std::same_as<std::remove_cvref_t<U>, Error> && std::constructible_from<T, U>;

}  // namespace internal

/// A value, or the error that prevented it, with the interface of `std::expected`, which g++ 12
/// offers only beyond C++20. Asking for a value that is not there throws isocost::Exception with
/// the error, by `*`, `->` and `value()` alike. Dropping a result is a compiler warning. As
/// thread-safe as its value.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  Result()
    requires std::default_initializable<T>
  = default;
  template <typename U = T>
    requires internal::ValueOf<U, T>
  explicit(!std::is_convertible_v<U, T>)
      Result(U&& value)  // NOLINT(bugprone-forwarding-reference-overload): constrained
      : held_(std::forward<U>(value)) {}
  Result(Error error)  // NOLINT(google-explicit-constructor): `return Error(...)` is the idiom.
      : held_(tl::unexpect, std::move(error)) {}
  /// Converts the value of another result, or takes its error.
  template <typename U>
    requires(!std::same_as<U, T> && std::convertible_to<U, T>)
  Result(Result<U> other)  // NOLINT(google-explicit-constructor): as its value is.
      : held_(other ? Held(*std::move(other)) : Held(tl::unexpect, std::move(other).error())) {}

  bool has_value() const { return held_.has_value(); }
  explicit operator bool() const { return has_value(); }

  T& value() & { return checked(*this); }
  const T& value() const& { return checked(*this); }
  T&& value() && { return std::move(checked(*this)); }
  const T&& value() const&& { return std::move(checked(*this)); }
  T& operator*() & { return checked(*this); }
  const T& operator*() const& { return checked(*this); }
  T&& operator*() && { return std::move(checked(*this)); }
  const T&& operator*() const&& { return std::move(checked(*this)); }
  T* operator->() { return std::addressof(checked(*this)); }
  const T* operator->() const { return std::addressof(checked(*this)); }

  template <typename U>
  T value_or(U&& other) const& {
    return held_.value_or(std::forward<U>(other));
  }
  template <typename U>
  T value_or(U&& other) && {
    return std::move(held_).value_or(std::forward<U>(other));
  }

  /// Returns the error. There must be one.
  const Error& error() const& { return held_.error(); }
  Error&& error() && { return std::move(held_).error(); }

 private:
  using Held = tl::expected<T, Error>;

  template <typename Self>
  static auto& checked(Self& self) {
    if (!self.held_) throw_exception(self.held_.error());
    return *self.held_;
  }

  Held held_;
};

/// The result of a function that returns nothing if it succeeds.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() = default;
  Result(Error error)  // NOLINT(google-explicit-constructor): `return Error(...)` is the idiom.
      : held_(tl::unexpect, std::move(error)) {}

  bool has_value() const { return held_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (!held_) throw_exception(held_.error());
  }
  void operator*() const { value(); }

  /// Returns the error. There must be one.
  const Error& error() const& { return held_.error(); }
  Error&& error() && { return std::move(held_).error(); }

 private:
  tl::expected<void, Error> held_;
};

using Status = Result<void>;

/// Returns what `main` should return: 0, or 1 after the error's message was written to the standard
/// error stream, behind the program's name.
int exit_code(const Status& status);

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
