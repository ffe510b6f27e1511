#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// The commands of `isocost-lab`, see AddCommand.
void add_balance(CLI::App& app, Run& run);
void add_emulate(CLI::App& app, Run& run);
void add_simulate(CLI::App& app, Run& run);

}  // namespace isocost::cli
