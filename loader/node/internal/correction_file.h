#pragma once

#include <filesystem>

#include "base/log.h"
#include "base/result.h"
#include "loader/node/internal/online_model.h"

namespace isocost {

// Functions that keep the cost model's state in a file from one run of a node to the next. With an
// empty path nothing is read or written.

/// Restores the state from the file, if the file exists. The state of another model profile is
/// ignored with a warning. A file that cannot be used gets the suffix ".damaged", with a warning,
/// so that nothing is lost, and the node starts without its state. Errors: kIo.
Status restore_correction(OnlineModel& model, const std::filesystem::path& file,
                          const LogSink& log);

/// Replaces the file atomically, unless there is no state to keep yet. Errors: kIo.
Status save_correction(OnlineModel& model, const std::filesystem::path& file);

}  // namespace isocost
