#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/signal_stop.h"
#include "cli/data/bad_sample_list.h"
#include "cli/data/data_commands.h"
#include "cli/data/part_json.h"
#include "cli/data/priced_samples.h"
#include "cli/data/source_names.h"
#include "loader/config/option_table.h"
#include "loader/dataset/sample_name.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost::cli {
namespace {

struct DataLsArguments {
  DataWords data;
  std::string index_dir;
  ReadingOptions reading;
  PriceFlags price;
  bool samples = false;
  std::vector<std::string> shards;
  bool json = false;
  bool verbose = false;

  void add_to(CLI::App& command);
};

// A shard's row. A lost shard has a name and a condition only.
struct ListedShard {
  std::string name;
  std::size_t source = 0;
  std::optional<std::size_t> number = {};  // in the data set; nothing: it is lost
  ShardFacts facts = {};
  ShardTokenFacts tokens = {};
  std::string condition = "whole";
  std::string reason = {};  // why it is not whole

  std::uint64_t samples() const { return facts.usable + facts.bad; }
};

struct Listing {
  const Dataset& dataset;
  std::vector<ListedShard> shards;
  PricedSamples* priced = nullptr;  // null: no cost is known
  bool lists_samples = false;
};

std::vector<ListedShard> listed_shards(const Dataset& dataset, const TokenizerIdentity* tokenizer) {
  std::vector<ListedShard> rows;
  for (std::size_t i = 0; i < dataset.shards(); ++i) {
    ListedShard row{.name = dataset.shard_name(i), .number = i};
    row.facts = dataset.shard_facts(i);
    row.tokens = dataset.shard_tokens(i, tokenizer);
    rows.push_back(std::move(row));
  }
  for (const BrokenShard& broken : dataset.findings().broken) {
    auto row = std::ranges::find(rows, broken.name, &ListedShard::name);
    if (row == rows.end()) row = rows.insert(rows.end(), {.name = broken.name});
    row->condition = broken.lost ? "lost" : "damaged";
    row->reason = broken.reason;
  }
  for (ListedShard& row : rows) row.source = source_of_shard(dataset, row.name);
  std::ranges::stable_sort(rows, {}, &ListedShard::source);
  return rows;
}

// Keeps the shards that are named. Errors: kNotFound for one that is not there.
Status keep_named(const std::vector<std::string>& names, Listing& listing) {
  if (names.empty()) return {};
  for (const std::string& name : names) {
    if (std::ranges::find(listing.shards, name, &ListedShard::name) != listing.shards.end()) {
      continue;
    }
    return Error(ErrorCode::kNotFound,
                 "--shard " + printable_name(name) +
                     ": there is no shard of this name; without --shard all are listed");
  }
  std::erase_if(listing.shards, [&](const ListedShard& row) {
    return std::ranges::find(names, row.name) == names.end();
  });
  return {};
}

std::string tokens_text(const ListedShard& row) {
  if (!row.number) return "-";
  if (!row.tokens.are_there) return "none";
  return row.tokens.problem.empty() ? "yes" : "stale";
}

ListedShard sum_of(const std::vector<ListedShard>& rows, std::optional<std::size_t> source) {
  ListedShard sum;
  for (const ListedShard& row : rows) {
    if (source && row.source != *source) continue;
    sum.facts.bytes += row.facts.bytes;
    sum.facts.usable += row.facts.usable;
    sum.facts.bad += row.facts.bad;
  }
  return sum;
}

std::size_t count_broken(const std::vector<ListedShard>& rows, std::optional<std::size_t> source) {
  return static_cast<std::size_t>(std::ranges::count_if(rows, [&](const ListedShard& row) {
    return (!source || row.source == *source) && row.condition != "whole";
  }));
}

std::size_t count_shards(const std::vector<ListedShard>& rows, std::size_t source) {
  return static_cast<std::size_t>(std::ranges::count(rows, source, &ListedShard::source));
}

nlohmann::ordered_json counts_json(const ListedShard& row) {
  return {{"samples", row.samples()},
          {"usable", row.facts.usable},
          {"bad", row.facts.bad},
          {"bytes", row.facts.bytes}};
}

nlohmann::ordered_json tokens_json(const ListedShard& row) {
  nlohmann::ordered_json json = {{"there", row.tokens.are_there}};
  if (!row.tokens.problem.empty()) json["problem"] = "its tokens " + row.tokens.problem;
  if (row.tokens.are_there) json["options"] = row.tokens.options;
  return json;
}

nlohmann::ordered_json listed_sample_json(const Listing& listing, SampleId id) {
  const Dataset& dataset = listing.dataset;
  const SampleShape shape = dataset.shape(id);
  nlohmann::ordered_json json = {{"key", printable_name(dataset.key(id))},
                                 {"weight", shape.weight}};
  json["parts"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    json["parts"].push_back(part_json(printable_name(dataset.part_name(id, i)), shape.parts[i]));
  }
  if (listing.priced == nullptr) return json;
  if (const auto price = listing.priced->price(id)) {
    json["tokens"] = price->explanation.load[CostModule::kLlm].units;
    json["label_tokens"] = price->explanation.load.label_tokens;
    json["seconds"] = price->total_s();
  } else {
    json["no_price"] = price.error().message();
  }
  return json;
}

nlohmann::ordered_json listed_shard_json(const Listing& listing, const ListedShard& row) {
  nlohmann::ordered_json json = {{"shard", printable_name(row.name)}};
  if (has_sources(listing.dataset)) json["source"] = listing.dataset.sources()[row.source].name;
  json["condition"] = row.condition;
  if (!row.reason.empty()) json["reason"] = printable_name(row.reason);
  if (!row.number) return json;
  json["format"] = row.facts.format;
  json.update(counts_json(row));
  json["tokens"] = tokens_json(row);
  if (!listing.lists_samples) return json;
  json["usable_samples"] = nlohmann::ordered_json::array();
  for (SampleId id = row.facts.first; id < row.facts.first + row.facts.usable; ++id) {
    json["usable_samples"].push_back(listed_sample_json(listing, id));
  }
  return json;
}

void print_listing_json(const Listing& listing) {
  nlohmann::ordered_json json;
  if (has_sources(listing.dataset)) {
    json["sources"] = nlohmann::ordered_json::array();
    for (std::size_t s = 0; s < listing.dataset.sources().size(); ++s) {
      nlohmann::ordered_json source = {{"name", listing.dataset.sources()[s].name},
                                       {"shards", count_shards(listing.shards, s)},
                                       {"broken", count_broken(listing.shards, s)}};
      source.update(counts_json(sum_of(listing.shards, s)));
      json["sources"].push_back(std::move(source));
    }
  }
  json["broken"] = count_broken(listing.shards, std::nullopt);
  json.update(counts_json(sum_of(listing.shards, std::nullopt)));
  json["shards"] = nlohmann::ordered_json::array();
  for (const ListedShard& row : listing.shards) {
    json["shards"].push_back(listed_shard_json(listing, row));
  }
  if (listing.lists_samples) json["bad_samples"] = bad_samples_json(listing.dataset.bad());
  print_json(json);
}

void print_counts(const ListedShard& row) {
  std::printf("%10llu %10llu %8llu %12.3f", static_cast<unsigned long long>(row.samples()),
              static_cast<unsigned long long>(row.facts.usable),
              static_cast<unsigned long long>(row.facts.bad),
              static_cast<double>(row.facts.bytes) / 1e6);
}

void print_sources(const Listing& listing) {
  std::printf("%10s %10s %8s %12s %7s %7s  %s\n", "samples", "usable", "bad", "MB", "shards",
              "broken", "source");
  for (std::size_t s = 0; s < listing.dataset.sources().size(); ++s) {
    print_counts(sum_of(listing.shards, s));
    std::printf(" %7zu %7zu  %s\n", count_shards(listing.shards, s),
                count_broken(listing.shards, s), listing.dataset.sources()[s].name.c_str());
  }
  std::printf("\n");
}

void print_listed_sample(const Listing& listing, SampleId id) {
  const Dataset& dataset = listing.dataset;
  const SampleShape shape = dataset.shape(id);
  std::string parts;
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    const std::string size = size_text(shape.parts[i]);
    parts += (i == 0 ? "" : ", ") + printable_name(dataset.part_name(id, i)) +
             (size.empty() ? "" : " " + size);
  }
  std::printf("    %s", printable_name(dataset.key(id)).c_str());
  std::printf("  %s", parts.c_str());
  if (shape.weight != 1) std::printf("; weight %g", static_cast<double>(shape.weight));
  if (listing.priced != nullptr) {
    if (const auto price = listing.priced->price(id)) {
      std::printf("; %lld tokens, %lld labels, %.4g s",
                  static_cast<long long>(price->explanation.load[CostModule::kLlm].units),
                  static_cast<long long>(price->explanation.load.label_tokens), price->total_s());
    } else {
      std::printf("; no cost: %s", price.error().message().c_str());
    }
  }
  std::printf("\n");
}

void print_shard(const Listing& listing, const ListedShard& row) {
  if (row.number) {
    print_counts(row);
  } else {
    std::printf("%10s %10s %8s %12s", "-", "-", "-", "-");
  }
  std::printf("  %-7s %-6s  %s%s\n", row.number ? row.facts.format.c_str() : "-",
              tokens_text(row).c_str(), printable_name(row.name).c_str(),
              row.condition == "whole"
                  ? ""
                  : (": " + row.condition + ": " + printable_name(row.reason)).c_str());
  if (!row.tokens.problem.empty()) std::printf("    its tokens %s\n", row.tokens.problem.c_str());
  if (!listing.lists_samples) return;
  for (SampleId id = row.facts.first; id < row.facts.first + row.facts.usable; ++id) {
    print_listed_sample(listing, id);
  }
  for (const BadSample& bad : listing.dataset.bad()) {
    if (bad.shard == row.name) std::printf("    bad: %s\n", describe(bad).c_str());
  }
}

void print_listing(const Listing& listing) {
  if (has_sources(listing.dataset)) print_sources(listing);
  std::printf("%10s %10s %8s %12s  %-7s %-6s  %s\n", "samples", "usable", "bad", "MB", "format",
              "tokens", "shard");
  for (const ListedShard& row : listing.shards) print_shard(listing, row);
  print_counts(sum_of(listing.shards, std::nullopt));
  const std::size_t broken = count_broken(listing.shards, std::nullopt);
  std::printf("  %s%s\n", counted(listing.shards.size(), "shard").c_str(),
              broken > 0 ? (", " + std::to_string(broken) + " broken").c_str() : "");
}

Result<int> data_ls(const DataLsArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const DataSources data, as_usage_error(arguments.data.sources(arguments.reading)));
  NodeOptions node;
  ISOCOST_TRY(as_usage_error(apply(arguments.price.recipe, node)));
  DatasetOptions options;
  options.index_dir = arguments.index_dir;
  options.reading = arguments.reading;
  options.limits.max_pixels = node.decode.max_decoded_pixels;
  options.stores = store_options_of(node.decode);
  options.progress = progress_bar();
  options.log = console_log(arguments.verbose);
  options.stop = signals.token();
  options.log_remarks = false;
  std::optional<TokenizerIdentity> tokenizer;
  const std::filesystem::path model = model_directory(node.decode.recipe);
  if (!model.empty()) {
    ISOCOST_ASSIGN(tokenizer, TokenizerIdentity::of_model(model));
  }
  ISOCOST_ASSIGN(const auto dataset, Dataset::open(data, options));
  finish_progress();
  Listing listing{.dataset = *dataset,
                  .shards = listed_shards(*dataset, tokenizer ? &*tokenizer : nullptr)};
  ISOCOST_TRY(keep_named(arguments.shards, listing));
  listing.lists_samples = arguments.samples || !arguments.shards.empty();
  std::unique_ptr<PricedSamples> priced;
  if (listing.lists_samples) {
    ISOCOST_ASSIGN(priced, PricedSamples::open(arguments.price, data, options, *dataset));
    finish_progress();
  }
  listing.priced = priced.get();
  if (arguments.json) {
    print_listing_json(listing);
  } else {
    print_listing(listing);
  }
  return kDone;
}

void DataLsArguments::add_to(CLI::App& command) {
  data.add_to(command);
  command.add_flag("--samples", samples,
                   "List samples, too: keys, parts and weights; with --model or --profile tokens "
                   "and seconds");
  command.add_option("--shard", shards, "List this shard alone, with its samples; may be repeated")
      ->type_name("NAME");
  add_index_and_reading(command, index_dir, reading);
  price.add_to(command);
  command.add_flag("--json", json, "Print JSON instead of text");
  command.add_flag("--verbose", verbose, "Log debug messages as well");
}

constexpr const char* kDataLsFooter =
    "Examples:\n"
    "  isocost data ls data/shards\n"
    "  isocost data ls mixture.toml --json\n"
    "  isocost data ls data/shards --model DIR\n"
    "  isocost data ls data/shards --shard shard-000000.tar\n"
    "  isocost data ls data/shards --samples --json\n"
    "Tokens are 'yes', 'none', or 'stale' where they are not those of --model. What is bad or\n"
    "broken is listed, and is no failure here: 'isocost check' judges.";

}  // namespace

void add_data_ls(CLI::App& data, Run& run) {
  add_command<DataLsArguments>(
      data, run,
      {.name = "ls",
       .description = "List the sources and shards of a data set, and its samples.",
       .footer = kDataLsFooter},
      data_ls);
}

}  // namespace isocost::cli
