#include "cli/common/profiled_data.h"

#include <string_view>
#include <vector>

#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/setting_flags.h"
#include "loader/config/option_table.h"
#include "loader/dataset/shard_options.h"

namespace isocost::cli {

void ProfiledData::add_to(CLI::App& command) {
  add_index_and_reading(command, index_dir, reading);
  std::vector<std::string_view> of_recipe = {"model",   "image_size", "max_decoded_pixels",
                                             "ca_file", "cache",      "cache_size"};
  for (const OptionSpec& spec : node_option_table()) {
    if (spec.name.starts_with("recipe.")) of_recipe.push_back(spec.name);
  }
  add_setting_flags(command, recipe, NodeOptions{}, of_recipe);
  command.add_flag("--verbose", verbose, "Log debug messages as well");
}

Result<DataProfile> ProfiledData::profile(const DataWords& data, DataProfileOptions options) const {
  ISOCOST_ASSIGN(const DataSources sources, as_usage_error(data.sources(reading)));
  NodeOptions node;
  ISOCOST_TRY(apply(recipe, node));
  options.recipe = node.decode.recipe;
  options.progress = progress_bar();
  ISOCOST_TRY(options.validate());
  DatasetOptions dataset_options;
  dataset_options.index_dir = index_dir;
  dataset_options.reading = reading;
  dataset_options.limits.max_pixels = node.decode.max_decoded_pixels;
  dataset_options.stores = store_options_of(node.decode);
  dataset_options.model = model_directory(options.recipe);
  dataset_options.progress = progress_bar();
  dataset_options.log = console_log(verbose);
  dataset_options.stop = options.stop;
  ISOCOST_ASSIGN(const auto dataset, Dataset::open(sources, dataset_options));
  log_findings(dataset->findings(), {}, dataset_options.log);
  ISOCOST_ASSIGN(DataProfile profile, make_data_profile(*dataset, sources.given, options));
  finish_progress();
  return profile;
}

}  // namespace isocost::cli
