#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "balancer/layout/layout.h"
#include "base/counted.h"
#include "base/output_file.h"
#include "base/read_file.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/node_option_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/service/commands.h"
#include "costmodel/profile.h"
#include "loader/config/node_config.h"
#include "loader/node/node.h"

namespace isocost::cli {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

struct ServeArguments {
  std::string config;
  NodeOptionFlags flags{isolated_defaults()};
  bool verbose = false;

  void add_to(CLI::App& command);
};

// Reads the file first, then the flags, which take precedence.
Result<NodeOptions> read_options(const ServeArguments& arguments) {
  std::string text;
  if (!arguments.config.empty()) {
    ISOCOST_ASSIGN(text, read_file("config", arguments.config, kMaxConfigBytes));
  }
  return make_options([&](NodeOptions& options) -> Status {
    options.decode = isolated_defaults().decode;
    ISOCOST_TRY(apply_toml(options, text, arguments.config));
    return arguments.flags.apply(options);
  });
}

// Checks the files and directories that the node reads. The node would refuse them as well, but
// with the status of a node that failed.
Status check_inputs(const NodeOptions& options) {
  ISOCOST_TRY(check_shard_directory(options.data.string()));
  const std::filesystem::path& profile = options.cost_model.profile;
  const std::filesystem::path& layout = options.plan.layout;
  if (!profile.empty()) ISOCOST_TRY(CostProfile::load(profile));
  if (!layout.empty()) ISOCOST_TRY(Layout::load(layout));
  return {};
}

Status write_summary(const NodeOptions& options, const NodeSummary& summary) {
  if (options.service.summary.empty()) return {};
  return replace_file(options.service.summary, summary.to_json() + "\n");
}

std::string outcome_name(bool ended, bool signalled) {
  if (!ended) return "ended early: ";
  return signalled ? "drained: " : "done: ";
}

Result<int> serve(const ServeArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const NodeOptions options, as_usage_error(read_options(arguments)));
  ISOCOST_TRY(as_usage_error(check_inputs(options)));
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
      outcome_name(ended.has_value(), signals.token().stop_requested()) +
          std::to_string(summary.steps_delivered) + " of " + std::to_string(summary.steps) +
          " planned steps and " + std::to_string(summary.delivered) + " of " +
          std::to_string(summary.planned) + " samples delivered, " + std::to_string(summary.bad) +
          " bad, " + std::to_string(summary.dropped) + " dropped");
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
  flags.add_to(command);
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
