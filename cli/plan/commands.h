#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Add the commands of `isocost` that plan and read layouts. See AddCommand.
void add_plan(CLI::App& app, Run& run);
void add_layout(CLI::App& app, Run& run);

}  // namespace isocost::cli
