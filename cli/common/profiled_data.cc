#include "cli/common/profiled_data.h"

#include <string_view>
#include <vector>

#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/loader_rate.h"
#include "cli/common/savings_flags.h"
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

namespace {

// Adds what decides how samples are read, as flags of `isocost serve` would.
Status add_reading_settings(const ReadingOptions& reading, GivenSettings& settings) {
  const ReadingOptions standard;
  const auto add = [&settings](std::string_view name, const std::string& value,
                               const std::string& usual) -> Status {
    return value == usual ? Status() : settings.add(name, value, "--" + std::string(name));
  };
  ISOCOST_TRY(add("ignore_parts", reading.ignore_parts, standard.ignore_parts));
  ISOCOST_TRY(add("weight_key", reading.weight_key, standard.weight_key));
  ISOCOST_TRY(add("media_root", reading.media_root, standard.media_root));
  ISOCOST_TRY(add("number_keys", reading.number_keys ? "true" : "false", "false"));
  ISOCOST_TRY(add("text", reading.text, standard.text));
  ISOCOST_TRY(add("format", reading.format, standard.format));
  return add("split", reading.split, standard.split);
}

}  // namespace

Result<NodeOptions> ProfiledData::node_options(const DataWords& data) const {
  GivenSettings settings;
  ISOCOST_ASSIGN(const std::string text, data.text());
  ISOCOST_TRY(settings.add("data", text, "DATA"));
  if (!index_dir.empty()) ISOCOST_TRY(settings.add("index_dir", index_dir, "--index-dir"));
  ISOCOST_TRY(add_reading_settings(reading, settings));
  settings.add(recipe);
  return make_options(settings, isolated_defaults());
}

Result<DataProfile> ProfiledData::profile(const DataWords& data, DataProfileOptions options,
                                          bool measure_decoding) const {
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
  if (measure_decoding) {
    ISOCOST_ASSIGN(const NodeOptions of_node, as_usage_error(node_options(data)));
    ISOCOST_ASSIGN(const LoaderRate rate, measure_loader(of_node, SavingsFlags::kMeasuredSeconds,
                                                         options.progress, options.stop));
    profile.options.loader_s_per_sample = rate.cpu_s_per_sample;
  }
  finish_progress();
  return profile;
}

}  // namespace isocost::cli
