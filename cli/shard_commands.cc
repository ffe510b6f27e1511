#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "cli/commands.h"
#include "cli/console.h"
#include "loader/config/node_config.h"
#include "loader/config/option_table.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/check.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/make_shards.h"

namespace isocost::cli {
namespace {

struct ReadArguments {
  std::string directory;
  std::string index_dir;
  std::string memory = "2GiB";
  std::int64_t workers = 0;
  std::int64_t max_pixels = ProbeLimits{}.max_pixels;
  bool json = false;
  bool verbose = false;
};

DatasetOptions dataset_options(const ReadArguments& arguments) {
  DatasetOptions options;
  options.limits.max_pixels = arguments.max_pixels;
  options.index_dir = arguments.index_dir;
  options.workers = static_cast<std::size_t>(arguments.workers);
  options.progress = progress_bar();
  options.log = console_log(arguments.verbose);
  return options;
}

nlohmann::ordered_json to_json(const std::vector<BadSample>& bad) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BadSample& sample : bad) {
    list.push_back(nlohmann::ordered_json::parse(to_json_line(sample)));
  }
  return list;
}

void print_bad(const std::vector<BadSample>& bad) {
  for (const BadSample& sample : bad) std::printf("bad  %s\n", describe(sample).c_str());
}

// 0 where everything is good, 1 where something is bad.
Result<int> check(const ReadArguments& arguments) {
  const SignalStop signals;
  CheckOptions options;
  options.dataset = dataset_options(arguments);
  options.workers = static_cast<std::size_t>(arguments.workers);
  options.stop = signals.token();
  ISOCOST_ASSIGN(options.memory, parse_bytes(arguments.memory));
  ISOCOST_ASSIGN(const CheckReport report, check_dataset(arguments.directory, options));
  finish_progress();
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"shards", report.shards},
                                         {"samples", report.samples},
                                         {"parts", report.parts},
                                         {"bytes", report.bytes},
                                         {"bad", to_json(report.bad)}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    print_bad(report.bad);
    std::printf("%llu shards, %llu good samples, %llu parts, %.1f MB read, %zu bad\n",
                static_cast<unsigned long long>(report.shards),
                static_cast<unsigned long long>(report.samples),
                static_cast<unsigned long long>(report.parts),
                static_cast<double>(report.bytes) / 1e6, report.bad.size());
  }
  return report.bad.empty() ? 0 : 1;
}

// Before all headers are read in vain.
Status check_index_dir(const std::string& directory) {
  std::error_code failure;
  if (!directory.empty()) std::filesystem::create_directories(directory, failure);
  if (!failure) return {};
  return Error(ErrorCode::kInvalidArgument, "--index-dir: cannot make " + directory + ": " +
                                                failure.message() + "; name another directory");
}

// 1 where an index was not kept: a warning has said why.
Result<int> index(const ReadArguments& arguments) {
  ISOCOST_TRY(check_index_dir(arguments.index_dir));
  const auto started = std::chrono::steady_clock::now();
  ISOCOST_ASSIGN(const auto dataset,
                 Dataset::open(arguments.directory, dataset_options(arguments)));
  finish_progress();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"shards", dataset->shards()},
                                         {"samples", dataset->size()},
                                         {"not_kept", dataset->indexes_not_kept()},
                                         {"seconds", seconds.count()},
                                         {"bad", to_json(dataset->bad())}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    print_bad(dataset->bad());
    std::printf("%zu shards, %llu samples, %zu bad, %.2f s\n", dataset->shards(),
                static_cast<unsigned long long>(dataset->size()), dataset->bad().size(),
                seconds.count());
  }
  return dataset->indexes_not_kept() == 0 ? 0 : 1;
}

struct MakeArguments {
  std::string source;
  std::string output;
  std::string shard_size = "1GiB";
  MakeShardsOptions options;
  bool json = false;
};

Result<int> make(MakeArguments arguments) {
  const SignalStop signals;
  MakeShardsOptions& options = arguments.options;
  ISOCOST_ASSIGN(options.bytes_per_shard, parse_bytes(arguments.shard_size));
  options.stop = signals.token();
  options.progress = progress_bar();
  options.log = console_log(false);
  auto made_shards = make_shards(arguments.source, arguments.output, options);
  finish_progress();
  if (!made_shards) {
    const Error& error = made_shards.error();  // kIo may be of what is written
    return error.code() == ErrorCode::kIo ? error : of_given(error);
  }
  const MadeShards made = *std::move(made_shards);
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"shards", made.shards},
                                         {"samples", made.samples},
                                         {"bytes", made.bytes},
                                         {"bad", to_json(made.bad)}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    print_bad(made.bad);
    std::printf(
        "%llu samples, %.1f MB in %llu shards\n", static_cast<unsigned long long>(made.samples),
        static_cast<double>(made.bytes) / 1e6, static_cast<unsigned long long>(made.shards));
  }
  return 0;
}

void add_read_options(CLI::App& command, ReadArguments& arguments) {
  command.add_option("DIR", arguments.directory, "Directory of shards (*.tar, *.tar.gz)")
      ->required();
  command.add_option("--index-dir", arguments.index_dir,
                     "Where indexes are kept; empty: .isocost beside the shards");
  command.add_option("--max-pixels", arguments.max_pixels, "Larger images and frames are bad")
      ->capture_default_str();
  command.add_option("--workers", arguments.workers, "Threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  command.add_flag("--json", arguments.json, "Print JSON instead of text");
  command.add_flag("--verbose", arguments.verbose, "Log debug messages, too");
}

}  // namespace

void add_index(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("index", "Index shards: reads headers, skips bodies.");
  auto arguments = std::make_shared<ReadArguments>();
  add_read_options(*command, *arguments);
  command->footer(
      "Examples:\n  isocost index data/shards\n  isocost index data/shards --index-dir /fast/index "
      "--json\n"
      "An index that is newer than its shard is left alone. serve indexes by itself what is "
      "missing.\n"
      "Status: 0 done, 1 an index was not kept, 2 wrong call.");
  command->callback(
      [arguments, &run] { run = [arguments] { return exit_status(index(*arguments)); }; });
}

void add_check(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("check", "Read and decode everything; list what is bad, and why.");
  auto arguments = std::make_shared<ReadArguments>();
  add_read_options(*command, *arguments);
  command->add_option("--memory", arguments->memory, "Budget for decoding")
      ->type_name("SIZE")
      ->capture_default_str();
  command->footer(
      "Examples:\n  isocost check data/shards\n  isocost check --json data/shards > report.json\n"
      "Status: 0 all is good, 1 something is bad, 2 wrong call.");
  command->callback(
      [arguments, &run] { run = [arguments] { return exit_status(check(*arguments)); }; });
}

void add_make_shards(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("make-shards", "Write WebDataset shards from files.");
  auto arguments = std::make_shared<MakeArguments>();
  MakeShardsOptions& options = arguments->options;
  command->add_option("SOURCE", arguments->source, "Manifest of JSON lines, or a directory")
      ->required();
  command->add_option("DIR", arguments->output, "Where the shards go; made where it is missing")
      ->required();
  command->add_option("--name", options.name, "Shards are NAME-000000.tar, ...")
      ->capture_default_str();
  command->add_option("--samples-per-shard", options.samples_per_shard, "At most")
      ->capture_default_str();
  command->add_option("--shard-size", arguments->shard_size, "At most, unless one sample is larger")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_flag("--gzip", options.gzip, "Write .tar.gz");
  command->add_flag("--force", options.force, "Replace shards of the same name");
  command->add_flag("--skip-bad", options.skip_bad, "Leave bad samples out instead of stopping");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(
      "A line of a manifest:\n"
      R"(  {"key": "a/b", "parts": [{"name": "jpg", "file": "b.jpg"}, {"name": "txt", "text": "a caption"}]})"
      "\nParts stand in the order in which a model sees them; files are relative to the manifest. "
      "Files of\n"
      "a directory are grouped by their name up to the first dot.\n"
      "Examples:\n  isocost make-shards manifest.jsonl data/shards\n"
      "  isocost make-shards photos/ data/shards --samples-per-shard 500 --skip-bad\n"
      "Status: 0 done, 1 failed, 2 wrong call or bad sample, 128 + N stopped by signal N.");
  command->callback(
      [arguments, &run] { run = [arguments] { return exit_status(make(*arguments)); }; });
}

}  // namespace isocost::cli
