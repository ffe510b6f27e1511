#pragma once

#include <filesystem>

#include "base/log.h"
#include "base/result.h"
#include "loader/node/internal/online_model.h"

namespace isocost {

// The cost model's state, kept in a file from one run of a node to the next. With an empty path
// nothing is read or written.

/// Restores the state from the file, if the file exists. The state of another model profile is
/// ignored with a warning. A file that cannot be used gets the suffix ".damaged", with a warning,
/// so that nothing is lost and the node starts without it. Errors: kIo.
Status restore_correction(OnlineModel& model, const std::filesystem::path& file,
                          const LogSink& log);

/// Replaces the file atomically, once there is a state to keep. Errors: kIo.
Status save_correction(OnlineModel& model, const std::filesystem::path& file);

}  // namespace isocost
