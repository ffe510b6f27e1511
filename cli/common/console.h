#pragma once

#include "base/log.h"
#include "base/progress.h"

namespace isocost::cli {

/// Returns a sink that prints log lines on standard error. Lines for which there is no room at once
/// are dropped and counted, so that logging never blocks. Call once per process.
LogSink console_log(bool verbose);

/// Returns a sink that draws the process's progress bar (see ProgressBar) on standard error. Call
/// `finish_progress` before other output.
ProgressSink progress_bar();

/// Ends the line of a bar that is being drawn. Thread-safe.
void finish_progress();

}  // namespace isocost::cli
