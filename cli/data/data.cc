#include "cli/data/commands.h"
#include "cli/data/data_commands.h"

namespace isocost::cli {

void add_data(CLI::App& app, Run& run) {
  CLI::App* data = app.add_subcommand(
      "data", "Look at a data set: its cost, its shards and samples, the samples of a step.");
  data->require_subcommand(1);
  add_data_mixture(*data, run);
  add_data_profile(*data, run);
  add_data_ls(*data, run);
  add_data_show(*data, run);
  add_data_step(*data, run);
}

}  // namespace isocost::cli
