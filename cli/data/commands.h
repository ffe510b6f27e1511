#pragma once

#include <CLI/CLI.hpp>

#include "cli/common/program.h"

namespace isocost::cli {

// Add the commands of `isocost` about data sets. See AddCommand.
void add_cache(CLI::App& app, Run& run);  ///< The group `cache`.
void add_check(CLI::App& app, Run& run);
void add_data(CLI::App& app, Run& run);  ///< The group `data`.
void add_index(CLI::App& app, Run& run);
void add_make_shards(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);

}  // namespace isocost::cli
