#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/setting_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/data/bad_sample_list.h"
#include "cli/data/commands.h"
#include "cli/data/remark_list.h"
#include "cli/data/shard_findings_list.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/dataset/check.h"

namespace isocost::cli {
namespace {

struct CheckArguments {
  DatasetFlags dataset;
  GivenSettings settings;

  void add_to(CLI::App& command) {
    dataset.add_to(command);
    add_setting_flags(command, settings, isolated_defaults(),
                      {"model", "image_size", "memory", "decode_timeout", "isolate", "truncated",
                       "allow_broken_shards", "accept_unread_archives", "ca_file"});
  }
};

// Checks a data set. Returns kFailed if something is bad.
Result<int> check(const CheckArguments& arguments) {
  const DatasetFlags& flags = arguments.dataset;
  ISOCOST_ASSIGN(const DataSources data, as_usage_error(flags.data.sources(flags.reading)));
  const SignalStop signals;
  CheckOptions options;
  options.dataset = arguments.dataset.options();
  options.stop = options.dataset.stop = signals.token();
  options.dataset.log_server_bytes = true;
  NodeOptions node = isolated_defaults();
  ISOCOST_TRY(as_usage_error(apply(arguments.settings, node)));
  ISOCOST_TRY(as_usage_error(node.shards.validate()));
  options.decode = node.decode;
  options.decode.workers = arguments.dataset.workers;
  options.dataset.stores = store_options_of(node.decode);
  options.dataset.model = model_directory(options.decode.recipe);
  ISOCOST_ASSIGN(const CheckReport report, check_dataset(data, options));
  finish_progress();
  if (arguments.dataset.json) {
    nlohmann::ordered_json json = {{"shards", report.findings.shards},
                                   {"samples", report.samples},
                                   {"parts", report.parts},
                                   {"bytes", report.bytes},
                                   {"remarks", remarks_json(report.remarks)},
                                   {"bad", bad_samples_json(report.bad)}};
    add_findings(report.findings, json);
    print_json(json);
  } else {
    print_findings(report.findings);
    print_bad_samples(report.bad);
    std::printf("%s, %s, %s, %.1f MB read, %zu bad%s\n",
                counted(report.findings.shards, "shard").c_str(),
                counted(report.samples, "good sample").c_str(),
                counted(report.parts, "part").c_str(), static_cast<double>(report.bytes) / 1e6,
                report.bad.size(), broken_count(report.findings).c_str());
  }
  return findings_status(report.bad.empty(), report.sources, node.shards);
}

constexpr const char* kCheckFooter =
    "Examples:\n  isocost check data/shards\n  isocost check data/shards/*.tar\n  isocost check "
    "--json data/shards > report.json\n"
    "  isocost check data/shards --allow-broken-shards 2 --accept-unread-archives on";

}  // namespace

void add_check(CLI::App& app, Run& run) {
  add_command<CheckArguments>(
      app, run,
      {.name = "check",
       .description =
           "Read and decode everything; list bad samples and broken shards with reasons.",
       .footer = kCheckFooter},
      check);
}

}  // namespace isocost::cli
