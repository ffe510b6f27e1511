#include "loader/dataset/make_shards.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/counted.h"
#include "cli/bad_sample_list.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/json_output.h"
#include "cli/signal_stop.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

struct MakeShardsArguments {
  std::string source;
  std::string output;
  std::string shard_size = "1GiB";
  MakeShardsOptions options;
  bool json = false;

  void add_to(CLI::App& command);
};

Result<int> make_shards_command(MakeShardsArguments arguments) {
  const SignalStop signals;
  MakeShardsOptions& options = arguments.options;
  ISOCOST_ASSIGN(options.bytes_per_shard, parse_bytes(arguments.shard_size));
  options.stop = signals.token();
  options.progress = progress_bar();
  options.log = console_log(false);
  auto made_shards = make_shards(arguments.source, arguments.output, options);
  finish_progress();
  ISOCOST_ASSIGN(const MadeShards made, std::move(made_shards));
  if (arguments.json) {
    print_json({{"shards", made.shards},
                {"samples", made.samples},
                {"bytes", made.bytes},
                {"bad", bad_samples_json(made.bad)}});
  } else {
    print_bad_samples(made.bad);
    std::printf("%s, %.1f MB in %s\n", counted(made.samples, "sample").c_str(),
                static_cast<double>(made.bytes) / 1e6, counted(made.shards, "shard").c_str());
  }
  return kDone;
}

void MakeShardsArguments::add_to(CLI::App& command) {
  command.add_option("SOURCE", source, "Manifest of JSON lines, or a directory")->required();
  command.add_option("DIR", output, "Directory for the shards; made if it is missing")->required();
  command.add_option("--name", options.name, "Shards are called NAME-000000.tar, ...")
      ->capture_default_str();
  command.add_option("--samples-per-shard", options.samples_per_shard, "Most samples of a shard")
      ->capture_default_str();
  command
      .add_option("--shard-size", shard_size,
                  "Most bytes of a shard, unless a single sample is larger")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_flag("--gzip", options.gzip, "Write .tar.gz");
  command.add_flag("--force", options.force, "Replace shards of the same name");
  command.add_flag("--skip-bad", options.skip_bad, "Leave bad samples out instead of stopping");
  command.add_flag("--json", json, "Print JSON instead of text");
}

constexpr const char* kFooter =
    "A line of a manifest:\n"
    R"(  {"key": "a/b", "parts": [{"name": "jpg", "file": "b.jpg"}, {"name": "txt", "text": "a caption"}]})"
    "\nParts are listed in the order in which a model sees them. File names are relative to the\n"
    "manifest. Files of a directory are grouped by their name up to the first dot.\n"
    "Examples:\n  isocost make-shards manifest.jsonl data/shards\n"
    "  isocost make-shards photos/ data/shards --samples-per-shard 500 --skip-bad";

}  // namespace

void add_make_shards(CLI::App& app, Run& run) {
  add_command<MakeShardsArguments>(app, run,
                                   {.name = "make-shards",
                                    .description = "Write WebDataset shards from files.",
                                    .footer = kFooter},
                                   make_shards_command);
}

}  // namespace isocost::cli
