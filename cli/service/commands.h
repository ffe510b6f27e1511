#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Add the commands of `isocost` for a node that serves. See AddCommand.
void add_decode_worker(CLI::App& app, Run& run);  ///< Not listed: started by the program.
void add_keygen(CLI::App& app, Run& run);
void add_serve(CLI::App& app, Run& run);
void add_top(CLI::App& app, Run& run);

}  // namespace isocost::cli
