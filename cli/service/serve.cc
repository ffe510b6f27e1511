#include <cstdio>
#include <memory>
#include <string>

#include "base/counted.h"
#include "base/output_file.h"
#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/setting_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/service/commands.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/node/node.h"

namespace isocost::cli {
namespace {

struct ServeArguments {
  std::string config;
  GivenSettings flags;
  bool verbose = false;

  void add_to(CLI::App& command);
};

// Returns the node's options: its settings are those of the file and then the flags, which override
// them.
Result<NodeOptions> read_options(const ServeArguments& arguments) {
  GivenSettings settings;
  ISOCOST_TRY(add_config(settings, arguments.config));
  settings.add(arguments.flags);
  return make_options(settings, isolated_defaults());
}

Status write_summary(const NodeOptions& options, const NodeSummary& summary) {
  if (options.service.summary.empty()) return {};
  return replace_file(options.service.summary, summary.to_json() + "\n");
}

std::string outcome_name(bool ended, bool signalled) {
  if (!ended) return "ended early: ";
  return signalled ? "drained: " : "done: ";
}

// Describes the last job, and what the jobs before it have delivered, if there were any.
std::string delivered_text(const NodeSummary& summary) {
  const JobSummary& job = summary.last_job;
  std::string text = std::to_string(job.steps_delivered) + " of " + std::to_string(job.steps) +
                     " planned steps and " + std::to_string(job.delivered) + " of " +
                     std::to_string(job.planned) + " samples delivered";
  const std::uint64_t before = summary.steps_delivered - job.steps_delivered;
  if (before == 0) return text;
  return text + " by the last job, " + counted(before, "step") + " and " +
         counted(summary.delivered - job.delivered, "sample") + " by jobs before it";
}

Result<int> serve(const ServeArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const NodeOptions options, as_usage_error(read_options(arguments)));
  const LogSink sink = console_log(arguments.verbose);
  ISOCOST_ASSIGN(const std::unique_ptr<Node> node,
                 Node::create(options, progress_bar(), sink, {}, signals.token()));
  finish_progress();
  log(sink, LogLevel::kInfo,
      counted(node->dataset().size(), "sample") + " in " +
          counted(node->dataset().shards(), "shard") + ", " +
          std::to_string(node->dataset().bad().size()) + " bad");
  if (const std::string url = node->metrics_url(); !url.empty()) {
    log(sink, LogLevel::kInfo,
        "timeline of the last step at " + url.substr(0, url.rfind('/')) + "/timeline.svg");
    log(sink, LogLevel::kInfo, "metrics at " + url);
  }
  std::printf("listening on %s\n", node->endpoint().c_str());
  std::fflush(stdout);
  // Written however the node ends, since a node with --epochs 0 ends by a signal only.
  const auto ended = node->run({}, signals.token());
  const NodeSummary summary = node->summary();
  const Status written = write_summary(options, summary);
  log(sink, LogLevel::kInfo,
      outcome_name(ended.has_value(), signals.token().stop_requested()) + delivered_text(summary) +
          ", " + std::to_string(summary.bad) + " bad, " + std::to_string(summary.dropped) +
          " dropped");
  if (ended && !written) return written.error();
  if (ended) return kDone;
  if (!written) log(sink, LogLevel::kError, written.error().message());
  return ended.error();
}

void ServeArguments::add_to(CLI::App& command) {
  command
      .add_option("--config", config, "TOML file of settings (docs/config.md); flags override it")
      ->type_name("FILE");
  command.add_flag("--verbose", verbose, "Log debug messages as well");
  add_setting_flags(command, flags, isolated_defaults());
}

constexpr const char* kServeFooter =
    "Examples:\n"
    "  isocost serve --data data/shards --ranks 2 --global-batch-size 64 --microbatches 4\n"
    "  isocost serve --config node.toml --bind 'tcp://127.0.0.1:*' --summary run.json\n"
    "  isocost serve --data data/shards --layout layout.json --global-batch-size 512\n"
    "  isocost serve --data data/shards --metrics 9464    # and then: isocost top\n"
    "  isocost serve --data data/shards --bind tcp://0.0.0.0:5800 --curve-key node.secret\n"
    "Prints 'listening on ENDPOINT' on standard output, then serves until every rank has\n"
    "acknowledged the last epoch. At SIGINT or SIGTERM it finishes the steps that ranks have\n"
    "begun, tells them where to resume, and ends with status 0; a second signal ends it at once.";

}  // namespace

void add_serve(CLI::App& app, Run& run) {
  add_command<ServeArguments>(app, run,
                              {.name = "serve",
                               .description = "Run a loader node: plan, decode, deliver.",
                               .footer = kServeFooter},
                              serve);
}

}  // namespace isocost::cli
