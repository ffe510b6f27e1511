#pragma once

#include "base/result.h"

namespace isocost::cli {

// Exit statuses of both programs, of every command; 128 + N where signal N stopped the work.
inline constexpr int kDone = 0;
inline constexpr int kFailed =
    1;  ///< The work failed, or found something bad (data/: findings_status).
inline constexpr int kUsageError = 2;  ///< Arguments, or a file that they name, cannot be used.

/// Exit statuses as text for the end of --help.
inline constexpr const char* kExitStatusHelp =
    "Exit status: 0 done; 1 failed, or found something bad; 2 usage error: an argument,\n"
    "or a file that it names, cannot be used; 128 + N stopped by signal N.";

/// Returns the status of a command that failed: kUsageError for errors that the caller can mend
/// (kInvalidArgument, kNotFound, kAlreadyExists), 128 + N for a kCancelled that signal N caused
/// (see SignalStop), else kFailed.
int exit_status(const Error& error);

/// Returns `error` as kInvalidArgument if its code says that something that the caller named, such
/// as a file, is broken, unreadable or too large, since the caller can mend it. Other codes stay.
Error as_usage_error(const Error& error);
template <typename T>
Result<T> as_usage_error(Result<T> result) {
  if (!result) return as_usage_error(result.error());
  return result;
}

}  // namespace isocost::cli
