#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Adds the command of `isocost` that plans a layout. See AddCommand.
void add_plan(CLI::App& app, Run& run);

}  // namespace isocost::cli
