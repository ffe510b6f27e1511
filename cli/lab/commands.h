#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Add the commands of `isocost-lab`. See AddCommand.
void add_balance(CLI::App& app, Run& run);
void add_emulate(CLI::App& app, Run& run);
void add_simulate(CLI::App& app, Run& run);

}  // namespace isocost::cli
