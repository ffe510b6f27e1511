#pragma once

#include <filesystem>

#include "base/log.h"
#include "base/result.h"
#include "loader/node/internal/online_model.h"

namespace isocost {

/// What correction learned, kept from one run of a node to the next. An empty path: not kept.

/// Goes on from the file where there is one. A state of another profile is left alone, with a
/// warning: learning starts anew. Errors: kIo; kInvalidArgument for what is no state, naming the
/// file.
Status restore_correction(OnlineModel& model, const std::filesystem::path& file,
                          const LogSink& log);

/// Replaces the file in one piece, once there is something to keep. Errors: kIo.
Status save_correction(OnlineModel& model, const std::filesystem::path& file);

}  // namespace isocost
