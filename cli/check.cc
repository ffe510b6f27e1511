#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/counted.h"
#include "cli/bad_sample_list.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/dataset_flags.h"
#include "cli/exit_status.h"
#include "cli/json_output.h"
#include "cli/signal_stop.h"
#include "loader/config/option_table.h"
#include "loader/dataset/check.h"

namespace isocost::cli {
namespace {

struct CheckArguments {
  DatasetFlags dataset;
  std::string memory = "2GiB";

  void add_to(CLI::App& command) {
    dataset.add_to(command);
    command.add_option("--memory", memory, "Budget for decoding")
        ->type_name("SIZE")
        ->capture_default_str();
  }
};

// Returns kFailed if something is bad.
Result<int> check(const CheckArguments& arguments) {
  ISOCOST_TRY(check_shard_directory(arguments.dataset.directory));
  const SignalStop signals;
  CheckOptions options;
  options.dataset = arguments.dataset.options();
  options.workers = static_cast<std::size_t>(arguments.dataset.workers);
  options.stop = options.dataset.stop = signals.token();
  ISOCOST_ASSIGN(options.memory, parse_bytes(arguments.memory));
  ISOCOST_ASSIGN(const CheckReport report, check_dataset(arguments.dataset.directory, options));
  finish_progress();
  if (arguments.dataset.json) {
    print_json({{"shards", report.shards},
                {"samples", report.samples},
                {"parts", report.parts},
                {"bytes", report.bytes},
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

constexpr const char* kFooter =
    "Examples:\n  isocost check data/shards\n  isocost check --json data/shards > report.json";

}  // namespace

void add_check(CLI::App& app, Run& run) {
  add_command<CheckArguments>(
      app, run,
      {.name = "check",
       .description = "Read and decode everything; list bad samples with reasons.",
       .footer = kFooter},
      check);
}

}  // namespace isocost::cli
