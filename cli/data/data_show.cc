#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/sample_parts.h"
#include "cli/common/signal_stop.h"
#include "cli/common/terminal_text.h"
#include "cli/data/data_commands.h"
#include "cli/data/part_json.h"
#include "cli/data/priced_samples.h"
#include "cli/data/source_names.h"
#include "loader/config/data_sources.h"
#include "loader/config/option_table.h"
#include "loader/dataset/find_sample.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/sample_name.h"
#include "loader/dataset/shard_options.h"
#include "loader/dataset/source_number.h"

namespace isocost::cli {
namespace {

constexpr std::int64_t kMostShownBytes = std::int64_t{64} << 20;  // of a text, with --all
constexpr std::int64_t kBeginBytes = std::int64_t{64} << 10;      // of one that is cut

struct DataShowArguments {
  std::string data;
  std::string key;
  std::string index_dir;
  ReadingOptions reading;
  PriceFlags price;
  bool all = false;
  bool json = false;

  void add_to(CLI::App& command);
};

// A text of the sample, or the begin of it.
struct ShownText {
  std::string name;
  std::string text;
  std::int64_t bytes = 0;  // of all of it
};

struct ShownSample {
  SampleId id = 0;
  std::vector<PartShape> parts = {};
  std::vector<std::string> names = {};  // of the parts
  std::vector<ShownText> texts = {};    // its JSON last
  float weight = 1;
  std::string price_problem = {};
  std::optional<SamplePrice> price = {};
};

Result<ShownText> read_text(std::string name, const ByteSource& source, std::int64_t most) {
  ShownText shown{.name = std::move(name), .text = {}, .bytes = source.size()};
  shown.text.resize(static_cast<std::size_t>(std::min(source.size(), most)));
  ISOCOST_ASSIGN(const std::size_t read,
                 source.read_at(0, std::as_writable_bytes(std::span(shown.text))));
  shown.text.resize(read);
  return shown;
}

// Reads the texts and the JSON. The latter may also be one of the parts.
Status read_texts(const Dataset& dataset, std::int64_t most, ShownSample& sample) {
  for (std::size_t i = 0; i < sample.parts.size(); ++i) {
    if (sample.parts[i].modality != Modality::kText) continue;
    if (sample.parts[i].format == MediaFormat::kJson) continue;
    ISOCOST_ASSIGN(const auto source, dataset.open_part(sample.id, i));
    ISOCOST_ASSIGN(ShownText text, read_text(sample.names[i], *source, most));
    sample.texts.push_back(std::move(text));
  }
  ISOCOST_ASSIGN(const auto json, dataset.open_json(sample.id));
  if (json == nullptr) return {};
  ISOCOST_ASSIGN(ShownText text, read_text("json", *json, most));
  sample.texts.push_back(std::move(text));
  return {};
}

Result<ShownSample> read_sample(const Dataset& dataset, SampleId id, std::int64_t most) {
  const SampleShape shape = dataset.shape(id);
  ShownSample sample{.id = id, .parts = shape.parts, .weight = shape.weight};
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    sample.names.push_back(printable_name(dataset.part_name(id, i)));
  }
  ISOCOST_TRY(read_texts(dataset, most, sample));
  return sample;
}

void print_part_table(const ShownSample& sample) {
  std::printf("%-20s %-6s %-10s %-18s %12s\n", "part", "kind", "format", "size", "bytes");
  for (std::size_t i = 0; i < sample.parts.size(); ++i) {
    const PartShape& part = sample.parts[i];
    std::printf("%-20s %-6s %-10s %-18s %12lld\n", sample.names[i].c_str(),
                std::string(modality_name(part.modality)).c_str(),
                std::string(format_name(part.format)).c_str(), size_text(part).c_str(),
                static_cast<long long>(part.encoded_bytes));
  }
}

void print_texts(const ShownSample& sample, bool all) {
  constexpr std::size_t kColumns = 100;
  for (const ShownText& shown : sample.texts) {
    if (all) {
      std::printf("\n%s:\n%s\n", shown.name.c_str(), printable_lines(shown.text).c_str());
      if (shown.bytes > kMostShownBytes) {
        std::printf("(%s more)\n", counted(shown.bytes - kMostShownBytes, "byte").c_str());
      }
      continue;
    }
    const std::string label = shown.name + ": ";
    const std::size_t columns = terminal_columns(kColumns);
    std::printf("%s%s\n", label.c_str(),
                one_line(shown.text, columns - std::min(columns, label.size())).c_str());
  }
}

void print_price(const ShownSample& sample, const PricedSamples* priced) {
  if (!sample.price_problem.empty()) {
    std::printf("\nno predicted cost: %s\n", sample.price_problem.c_str());
  }
  if (!sample.price) return;
  std::printf("\n");
  print_parts(sample.price->explanation);
  std::printf("%.4g s predicted, forward and backward, without the fixed seconds of a microbatch",
              sample.price->total_s());
  for (std::size_t m = 0; m < kModules; ++m) {
    if (sample.price->seconds.at(m) <= 0) continue;
    std::printf("; %s %.4g s", std::string(module_name(static_cast<CostModule>(m))).c_str(),
                sample.price->seconds.at(m));
  }
  std::printf(" (model profile %s)\n", priced->profile().c_str());
}

void print_sample_json(const Dataset& dataset, const ShownSample& sample,
                       const PricedSamples* priced) {
  nlohmann::ordered_json json = {{"key", printable_name(dataset.key(sample.id))},
                                 {"shard", printable_name(dataset.shard(sample.id))}};
  if (has_sources(dataset)) {
    json["source"] = dataset.sources()[source_number(dataset, sample.id)].name;
  }
  json["weight"] = sample.weight;
  json["parts"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < sample.parts.size(); ++i) {
    json["parts"].push_back(part_json(sample.names[i], sample.parts[i]));
  }
  json["texts"] = nlohmann::ordered_json::object();
  for (const ShownText& text : sample.texts) json["texts"][text.name] = text.text;
  if (sample.price) {
    json["model"] = to_json(sample.price->explanation);
    json["seconds"] = sample.price->total_s();
    json["profile"] = priced->profile();
  } else if (!sample.price_problem.empty()) {
    json["no_price"] = sample.price_problem;
  }
  print_json(json);
}

Result<int> data_show(const DataShowArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const NamedData data,
                 as_usage_error(read_data(arguments.data, arguments.reading)));
  DatasetOptions options;
  options.index_dir = arguments.index_dir;
  options.reading = arguments.reading;
  NodeOptions node;
  ISOCOST_TRY(as_usage_error(apply(arguments.price.recipe, node)));
  options.limits.max_pixels = node.decode.max_decoded_pixels;
  options.stores = store_options_of(node.decode);
  options.progress = progress_bar();
  options.log = console_log(false);
  options.stop = signals.token();
  options.log_remarks = false;
  ISOCOST_ASSIGN(const auto dataset, Dataset::open(data.sources, options));
  finish_progress();
  log_findings(dataset->findings(), {}, options.log);
  ISOCOST_ASSIGN(const SampleId id, find_sample(*dataset, arguments.key, data.sources.given));
  ISOCOST_ASSIGN(const auto priced,
                 PricedSamples::open(arguments.price, data.sources, options, *dataset));
  finish_progress();
  const bool whole = arguments.all || arguments.json;
  ISOCOST_ASSIGN(ShownSample sample,
                 read_sample(*dataset, id, whole ? kMostShownBytes : kBeginBytes));
  if (priced != nullptr) {
    auto price = priced->price(id);
    if (price) {
      sample.price = *std::move(price);
    } else {
      sample.price_problem = price.error().message();
    }
  }
  if (arguments.json) {
    print_sample_json(*dataset, sample, priced.get());
    return kDone;
  }
  std::printf("%s, weight %g\n", sample_name(dataset->shard(id), dataset->key(id)).c_str(),
              static_cast<double>(sample.weight));
  print_part_table(sample);
  print_texts(sample, arguments.all);
  print_price(sample, priced.get());
  return kDone;
}

void DataShowArguments::add_to(CLI::App& command) {
  command.add_option("DATA", data, "What has the sample: " + std::string(kDataHelp))->required();
  command
      .add_option("KEY", key,
                  "The sample: SHARD/KEY, in a mixture SOURCE/SHARD/KEY, or a key that only one "
                  "sample has")
      ->required();
  add_index_and_reading(command, index_dir, reading);
  price.add_to(command);
  command.add_flag("--all", all, "Print texts whole, with their lines");
  command.add_flag("--json", json, "Print JSON instead of text");
}

constexpr const char* kDataShowFooter =
    "Examples:\n"
    "  isocost data show data/shards shard-000000.tar/000007\n"
    "  isocost data show mixture.toml captions/shard-000000.tar/000007 --all\n"
    "  isocost data show data/shards 000007 --model DIR --profile profile.json\n"
    "Names of shards and keys may hold slashes: the longest shard that fits is meant. Texts are "
    "cut\n"
    "to the terminal's width. 'isocost data ls DATA --samples' lists keys, and 'isocost predict'\n"
    "explains a sample's cost term by term.";

}  // namespace

void add_data_show(CLI::App& data, Run& run) {
  add_command<DataShowArguments>(
      data, run,
      {.name = "show",
       .description = "Show one sample: its parts, texts, JSON and weight.",
       .footer = kDataShowFooter},
      data_show);
}

}  // namespace isocost::cli
