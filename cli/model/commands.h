#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Add the commands of `isocost` about models. See AddCommand.
void add_model_profile(CLI::App& app, Run& run);  ///< The group `model`.
void add_predict(CLI::App& app, Run& run);

}  // namespace isocost::cli
