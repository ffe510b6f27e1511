#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/setting_flags.h"
#include "cli/data/bad_sample_list.h"
#include "cli/data/commands.h"
#include "cli/data/remark_list.h"
#include "cli/data/shard_findings_list.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/dataset/dataset.h"

namespace isocost::cli {
namespace {

// Checks the directory of indexes. Called first: reading all headers takes long, and their indexes
// would be lost.
Status check_index_dir(const std::string& directory) {
  std::error_code failure;
  if (!directory.empty()) std::filesystem::create_directories(directory, failure);
  if (!failure) return {};
  return Error(ErrorCode::kInvalidArgument, "--index-dir: cannot make " + directory + ": " +
                                                failure.message() + "; name another directory");
}

struct IndexArguments {
  DatasetFlags dataset;
  GivenSettings settings;
  bool prune = false;

  void add_to(CLI::App& command) {
    dataset.add_to(command);
    command.add_flag("--prune", prune,
                     "Remove the tables that starts with other options left beside the indexes");
    add_setting_flags(
        command, settings, {},
        {"allow_broken_shards", "accept_unread_archives", "ca_file", "cache", "cache_size"});
  }
};

// Indexes a data set. Returns kFailed if something is bad, or if an index could not be written; a
// warning has given the reason.
Result<int> index(const IndexArguments& arguments) {
  const DatasetFlags& flags = arguments.dataset;
  NodeOptions node;
  ISOCOST_TRY(as_usage_error(apply(arguments.settings, node)));
  ISOCOST_TRY(as_usage_error(node.shards.validate()));
  ISOCOST_ASSIGN(const DataSources data, as_usage_error(flags.data.sources(flags.reading)));
  ISOCOST_TRY(check_index_dir(flags.index_dir));
  const auto started = std::chrono::steady_clock::now();
  DatasetOptions options = flags.options();
  options.prune_tables = arguments.prune;
  options.stores = store_options_of(node.decode);
  ISOCOST_ASSIGN(const auto dataset, Dataset::open(data, options));
  finish_progress();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  const ShardFindings& findings = dataset->findings();
  if (flags.json) {
    nlohmann::ordered_json json = {{"shards", findings.shards},
                                   {"samples", dataset->size()},
                                   {"not_kept", dataset->indexes_not_kept()},
                                   {"seconds", seconds.count()},
                                   {"remarks", remarks_json(dataset->remarks())},
                                   {"bad", bad_samples_json(dataset->bad())}};
    add_findings(findings, json);
    print_json(json);
  } else {
    print_findings(findings);
    print_bad_samples(dataset->bad());
    std::printf("%s, %s, %zu bad%s, %.2f s\n", counted(findings.shards, "shard").c_str(),
                counted(dataset->size(), "sample").c_str(), dataset->bad().size(),
                broken_count(findings).c_str(), seconds.count());
  }
  const bool is_good = dataset->bad().empty() && dataset->indexes_not_kept() == 0;
  return findings_status(is_good, dataset->sources(), node.shards);
}

constexpr const char* kIndexFooter =
    "Examples:\n  isocost index data/shards\n"
    "  isocost index data/shards --index-dir /fast/index --json\n"
    "  isocost index 'data/**/*.tar'\n"
    "  isocost index data/shards --allow-broken-shards 1%\n"
    "  isocost index data/shards --ignore-parts avif,heic\n"
    "An index is kept as long as its shard's size and modification time are those it was made\n"
    "from. 'isocost serve' makes missing indexes.";

}  // namespace

void add_index(CLI::App& app, Run& run) {
  add_command<IndexArguments>(app, run,
                              {.name = "index",
                               .description = "Index shards: read the headers, skip the bodies.",
                               .footer = kIndexFooter},
                              index);
}

}  // namespace isocost::cli
