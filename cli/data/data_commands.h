#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Add the commands of the group `data`. See AddCommand.
void add_data_ls(CLI::App& data, Run& run);
void add_data_mixture(CLI::App& data, Run& run);
void add_data_profile(CLI::App& data, Run& run);
void add_data_show(CLI::App& data, Run& run);
void add_data_step(CLI::App& data, Run& run);

}  // namespace isocost::cli
