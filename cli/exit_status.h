#pragma once

#include "base/result.h"

namespace isocost::cli {

// Exit statuses of both programs; 128 + N where signal N stopped the work.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;      ///< The work failed, or found something bad.
inline constexpr int kUsageError = 2;  ///< Flags, or the contents of a file that they name.

/// Returns the status of a command that failed: kUsageError for what the caller can mend
/// (kInvalidArgument, kNotFound, kAlreadyExists), 128 + N for a kCancelled that signal N caused
/// (see SignalStop), else kFailed.
int exit_status(const Error& error);

/// Returns `error` as kInvalidArgument where its code says that something the caller named, such as
/// a file, is broken, unreadable or too large: the caller can mend it. Other codes stay.
Error as_usage_error(const Error& error);
template <typename T>
Result<T> as_usage_error(Result<T> result) {
  if (!result) return as_usage_error(result.error());
  return result;
}

}  // namespace isocost::cli
