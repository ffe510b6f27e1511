#pragma once

#include <CLI/CLI.hpp>

#include "cli/program.h"

namespace isocost::cli {

// The commands of `isocost`, see AddCommand.
void add_check(CLI::App& app, Run& run);
void add_data_profile(CLI::App& app, Run& run);   ///< The group `data`.
void add_decode_worker(CLI::App& app, Run& run);  ///< Not listed: started by the program.
void add_index(CLI::App& app, Run& run);
void add_keygen(CLI::App& app, Run& run);
void add_make_shards(CLI::App& app, Run& run);
void add_model_profile(CLI::App& app, Run& run);  ///< The group `model`.
void add_plan(CLI::App& app, Run& run);
void add_predict(CLI::App& app, Run& run);
void add_serve(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_top(CLI::App& app, Run& run);

}  // namespace isocost::cli
