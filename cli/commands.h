#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace isocost::cli {

/// Each adds one subcommand; `run` is what it does when it is chosen, and returns the exit status.
using Run = std::function<int()>;
void add_serve(CLI::App& app, Run& run);
void add_index(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_make_shards(CLI::App& app, Run& run);
void add_keygen(CLI::App& app, Run& run);
void add_balance(CLI::App& app, Run& run);
void add_emulate(CLI::App& app, Run& run);
void add_plan(CLI::App& app, Run& run);
void add_predict(CLI::App& app, Run& run);
void add_profile(CLI::App& app, Run& run);
void add_profile_data(CLI::App& app, Run& run);
void add_simulate(CLI::App& app, Run& run);
void add_top(CLI::App& app, Run& run);

}  // namespace isocost::cli
