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
#include "loader/config/option_table.h"
#include "loader/config/settings.h"
#include "loader/dataset/check.h"

namespace isocost::cli {
namespace {

struct CheckArguments {
  DatasetFlags dataset;
  Settings decode;

  void add_to(CLI::App& command) {
    dataset.add_to(command);
    add_setting_flags(command, decode, isolated_defaults(),
                      {"model", "memory", "decode_timeout", "isolate"});
  }
};

// Checks a data set. Returns kFailed if something is bad.
Result<int> check(const CheckArguments& arguments) {
  ISOCOST_TRY(check_shard_directory(arguments.dataset.directory));
  const SignalStop signals;
  CheckOptions options;
  options.dataset = arguments.dataset.options();
  options.stop = options.dataset.stop = signals.token();
  NodeOptions node = isolated_defaults();
  ISOCOST_TRY(as_usage_error(apply(arguments.decode, node)));
  options.decode = node.decode;
  options.decode.workers = arguments.dataset.workers;
  options.dataset.model = model_directory(options.decode.recipe);
  ISOCOST_ASSIGN(const CheckReport report, check_dataset(arguments.dataset.directory, options));
  finish_progress();
  if (arguments.dataset.json) {
    print_json({{"shards", report.shards},
                {"samples", report.samples},
                {"parts", report.parts},
                {"bytes", report.bytes},
                {"remarks", remarks_json(report.remarks)},
                {"bad", bad_samples_json(report.bad)}});
  } else {
    print_bad_samples(report.bad);
    std::printf("%s, %s, %s, %.1f MB read, %zu bad\n", counted(report.shards, "shard").c_str(),
                counted(report.samples, "good sample").c_str(),
                counted(report.parts, "part").c_str(), static_cast<double>(report.bytes) / 1e6,
                report.bad.size());
  }
  return report.bad.empty() ? kDone : kFailed;
}

constexpr const char* kCheckFooter =
    "Examples:\n  isocost check data/shards\n  isocost check --json data/shards > report.json";

}  // namespace

void add_check(CLI::App& app, Run& run) {
  add_command<CheckArguments>(
      app, run,
      {.name = "check",
       .description = "Read and decode everything; list bad samples with reasons.",
       .footer = kCheckFooter},
      check);
}

}  // namespace isocost::cli
