#include "loader/dataset/shard_writing/make_shards.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/number_range.h"
#include "cli/common/signal_stop.h"
#include "cli/data/bad_sample_list.h"
#include "cli/data/commands.h"
#include "cli/data/parquet_records.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

namespace fs = std::filesystem;

struct MakeShardsArguments {
  std::vector<std::string> paths;  // sources; without `given_output` the last is the output
  std::optional<std::string> given_output;
  std::optional<std::string> ignored_columns;
  std::optional<int> workers;
  std::string shard_size = "1GiB";
  MakeShardsOptions options;
  bool json = false;

  void add_to(CLI::App& command);
};

// The sources of shards, and the directory for these.
struct Places {
  std::vector<fs::path> sources;
  fs::path output;
};

Result<Places> places_of(const MakeShardsArguments& arguments) {
  Places places;
  places.sources.assign(arguments.paths.begin(), arguments.paths.end());
  if (arguments.given_output) {
    places.output = *arguments.given_output;
    return places;
  }
  if (places.sources.size() < 2) {
    return Error(ErrorCode::kInvalidArgument,
                 "DIR, the directory for the shards, is required: name it last, or by --output");
  }
  places.output = places.sources.back();
  places.sources.pop_back();
  return places;
}

// Prints what no model sees, one per line. Free-form records may have thousands of keys.
void print_unread(const std::vector<Unread>& unread) {
  constexpr std::size_t kMost = 20;
  for (std::size_t i = 0; i < unread.size() && i < kMost; ++i) {
    const auto& [kind, name, count] = unread[i];
    if (kind == "file") {
      std::printf("left out: %s with the extension '%s'\n", counted(count, "file").c_str(),
                  name.c_str());
    } else {
      std::printf("not read by any recipe: %s '%s' in %s\n", kind.c_str(), name.c_str(),
                  counted(count, "sample").c_str());
    }
  }
  if (unread.size() > kMost) {
    std::printf("and %zu more that are not read; --json lists all\n", unread.size() - kMost);
  }
}

// Prints the command that comes next, where there is one that these samples need.
void print_next(const MadeShards& made, const fs::path& output) {
  if (made.conversations == 0) return;
  std::printf("%s: next, make tokens with isocost tokenize %s --model DIR\n",
              counted(made.conversations, "conversation").c_str(), output.string().c_str());
}

nlohmann::ordered_json unread_json(const std::vector<Unread>& unread) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [kind, name, count] : unread) {
    list.push_back({{"kind", kind}, {"name", name}, {"count", count}});
  }
  return list;
}

// Returns the names between commas.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

// Makes shards of Parquet files: of their rows as JSON records.
Result<MadeShards> make_shards_of_rows(const std::vector<fs::path>& files, const fs::path& output,
                                       const MakeShardsArguments& arguments) {
  MakeShardsOptions options = arguments.options;
  ISOCOST_TRY(check_output(output, options));
  ParquetOptions reading;
  reading.directory = output / (".parquet-" + options.name);
  reading.workers = arguments.workers.value_or(
      std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  reading.ignored_columns = names_in(arguments.ignored_columns.value_or(""));
  reading.progress = options.progress;
  reading.stop = options.stop;
  ISOCOST_ASSIGN(const ParquetRecords records, ParquetRecords::convert(files, reading));
  if (options.media_root.empty()) options.media_root = directory_of_all(files);
  auto made = make_shards(records.file(), output, options);
  if (!made) return Error(made.error().code(), records.with_rows(made.error().message()));
  for (BadSample& bad : made->bad) bad.shard = records.with_rows(bad.shard);
  records.remove();
  return made;
}

Result<MadeShards> make_shards_of(const Places& places, const MakeShardsArguments& arguments) {
  ISOCOST_ASSIGN(const std::vector<fs::path> files, parquet_files(places.sources));
  if (!files.empty()) return make_shards_of_rows(files, places.output, arguments);
  if (arguments.workers || arguments.ignored_columns) {
    return Error(ErrorCode::kInvalidArgument,
                 std::string(arguments.workers ? "--workers" : "--ignore-columns") + ": " +
                     places.sources.front().string() + " is no Parquet file");
  }
  return make_shards(places.sources.front(), places.output, arguments.options);
}

Result<int> make_shards_command(MakeShardsArguments arguments) {
  const SignalStop signals;
  MakeShardsOptions& options = arguments.options;
  ISOCOST_ASSIGN(options.bytes_per_shard, parse_bytes(arguments.shard_size));
  ISOCOST_ASSIGN(const Places places, places_of(arguments));
  options.stop = signals.token();
  options.progress = progress_bar();
  options.log = console_log(false);
  auto made_shards = make_shards_of(places, arguments);
  finish_progress();
  ISOCOST_ASSIGN(const MadeShards made, std::move(made_shards));
  if (arguments.json) {
    print_json({{"shards", made.shards},
                {"samples", made.samples},
                {"conversations", made.conversations},
                {"bytes", made.bytes},
                {"bad", bad_samples_json(made.bad)},
                {"unread", unread_json(made.unread)}});
  } else {
    print_bad_samples(made.bad);
    print_unread(made.unread);
    std::printf("%s, %.1f MB in %s\n", counted(made.samples, "sample").c_str(),
                static_cast<double>(made.bytes) / 1e6, counted(made.shards, "shard").c_str());
    print_next(made, places.output);
  }
  return kDone;
}

void MakeShardsArguments::add_to(CLI::App& command) {
  command
      .add_option("SOURCE", paths,
                  "File of JSON records, directory of files, or Parquet files; then DIR, the "
                  "directory for the shards, made if it is missing")
      ->type_name("SOURCE... DIR")
      ->required();
  command.add_option("--output", given_output, "Directory for the shards, in place of DIR")
      ->type_name("DIR");
  command.add_option("--name", options.name, "Shards are called NAME-000000.tar, ...")
      ->capture_default_str();
  command.add_option("--samples-per-shard", options.samples_per_shard, "Most samples of a shard")
      ->capture_default_str();
  command
      .add_option("--shard-size", shard_size,
                  "Most bytes of a shard, unless a single sample is larger")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--media-root", options.media_root,
                  "Where relative paths of a file of records start, instead of its directory")
      ->type_name("DIR");
  add_reading(command, options.reading);
  command.add_flag("--number-keys", options.number_keys,
                   "Name samples by line or array element instead of by id or key");
  command.add_flag("--class-from-directory", options.class_from_directory,
                   "Add the name of a file's directory to its sample, as JSON {\"class\": NAME}");
  command.add_flag("--gzip", options.gzip, "Write .tar.gz");
  command.add_flag("--force", options.force, "Replace shards of the same name");
  command.add_flag("--skip-bad", options.skip_bad, "Leave bad samples out instead of stopping");
  command
      .add_option("--ignore-columns", ignored_columns,
                  "Columns of Parquet files that are left out, as in url,created")
      ->type_name("COLUMNS");
  command
      .add_option("--workers", workers,
                  "Processes that convert row groups of Parquet files [one for each core]")
      ->check(number_range(1, 1024));
  command.add_flag("--json", json, "Print JSON instead of text");
}

constexpr const char* kMakeShardsFooter =
    "A file of records has one object a line (JSON Lines) or is one array of objects, as it is or\n"
    "compressed by gzip or zstd, in a form that its first object tells:\n"
    R"(  {"id": 7, "image": "b.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}, ...]})"
    "\n"
    R"(  {"messages": [{"role": "user", "content": [{"type": "image", "image": "b.jpg"}, ...]}, ...]})"
    "\n"
    R"(  {"instruction": "...", "input": "...", "output": "..."}, {"query": ..., "response": ...}, {"question": ..., "answer": ...},)"
    "\n"
    R"(  {"prompt": ..., "completion": ...}, which become messages; with "image": "b.jpg" or "images": [...])"
    "\n"
    R"(  {"file_name": "b.jpg", "text": "a caption"})"
    "\n"
    R"(  {"key": "a/b", "parts": [{"name": "jpg", "file": "b.jpg"}, {"name": "txt", "text": "a caption"}]})"
    "\nThe last is a manifest, whose parts are listed in the order in which a model sees them.\n"
    "Media are paths, which start at the directory of the file, or base64: data: URLs, {\"bytes\": "
    "...}.\n"
    "Files of a directory are grouped by their name up to the first dot.\n"
    "Rows of Parquet files are records in one of these forms. The Python package pyarrow reads "
    "them;\n"
    "a run that was stopped goes on behind the last row group that is done.\n"
    "Examples:\n  isocost make-shards manifest.jsonl data/shards\n"
    "  isocost make-shards llava_v1_5_mix665k.json data/shards --media-root images --number-keys\n"
    "  isocost make-shards photos/metadata.jsonl data/shards --skip-bad\n"
    "  isocost make-shards imagenet/train data/shards --class-from-directory\n"
    "  isocost make-shards files/ data/shards --samples-per-shard 500\n"
    "  isocost make-shards data/*.parquet --output data/shards --ignore-columns url";

}  // namespace

void add_make_shards(CLI::App& app, Run& run) {
  add_command<MakeShardsArguments>(app, run,
                                   {.name = "make-shards",
                                    .description = "Write WebDataset shards from files.",
                                    .footer = kMakeShardsFooter},
                                   make_shards_command);
}

}  // namespace isocost::cli
