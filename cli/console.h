#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost::cli {

/// Log lines on standard error through spdlog, FFmpeg's and others' stay silent.
LogSink console_log(bool verbose);

/// A progress bar on standard error: redrawn in place on a terminal, a line every tenth elsewhere.
/// Call `finish_progress` before other output.
ProgressSink progress_bar();
void finish_progress();

/// Requests a stop at SIGINT and SIGTERM; a second signal ends the process at once. One per
/// process.
class SignalStop {
 public:
  SignalStop();
  ~SignalStop();
  SignalStop(const SignalStop&) = delete;
  SignalStop& operator=(const SignalStop&) = delete;
  std::stop_token token() const;
};

/// Of what the caller gave, a file's contents too: broken, unreadable or too large, it is the
/// caller who can mend it, so that the error is kInvalidArgument. Others stay as they are.
Error of_given(const Error& error);
template <typename T>
Result<T> of_given(Result<T> result) {
  if (!result) return of_given(result.error());
  return result;
}

/// Prints "isocost: <error>" on standard error; returns the exit status for the error's kind: 2
/// where the user can mend the call, 128 + N where signal N stopped the work, 1 else.
int report(const Error& error);
/// A command's own status, or what `report` says of its error.
int exit_status(const Result<int>& result);

}  // namespace isocost::cli
