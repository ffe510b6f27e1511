#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/number_range.h"
#include "cli/common/sample_parts.h"
#include "cli/common/setting_flags.h"
#include "cli/model/commands.h"
#include "costmodel/memory.h"
#include "costmodel/predictor.h"
#include "decode/recipe.h"
#include "loader/config/data_sources.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/find_sample.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/shard_options.h"
#include "loader/node/node_options.h"

namespace isocost::cli {
namespace {

struct PredictArguments {
  std::string data;
  std::string sample;
  std::string profile;
  std::array<std::vector<std::string>, kModules> loads;
  std::string index_dir;
  ReadingOptions reading;
  GivenSettings recipe;
  std::int64_t in_flight = 1;
  bool json = false;

  void add_to(CLI::App& command);
};

constexpr std::array<const char*, 4> kTermNames = {"fixed", "sequences", "units", "attention"};
using Terms = std::array<double, 4>;

struct ModuleExplanation {
  ModuleLoad load;
  double seconds = 0;  // of a microbatch that holds only this sample
  Terms terms{};       // add up to `seconds`
  PriceOrigin origin = PriceOrigin::kStated;
  double uncertainty = 0;
  ModuleMemory memory;
  std::int64_t limited = 0;  // activations as `max_memory` counts them
  bool frozen = false;
  bool beyond_memory = false;
  ModuleLoad out_of_memory;
};

Error wrong_sequences(const std::string& module, const std::string& text) {
  return {
      ErrorCode::kInvalidArgument,
      "--" + module + " is '" + text + "'; give LENGTH or LENGTHxCOUNT, both from 1 to 16777216"};
}

// Parses "256x4", which means four sequences of 256.
Result<ModuleLoad> parse_sequences(const std::string& module,
                                   const std::vector<std::string>& texts) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  constexpr std::int64_t kMostTogether = std::int64_t{1} << 30;  // their squares stay below 2^54
  ModuleLoad load;
  for (const std::string& text : texts) {
    const std::size_t cross = std::min(text.find('x'), text.size());
    const auto whole = [](std::string_view digits, std::int64_t& value) {
      const auto [end, failure] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return failure == std::errc() && end == digits.data() + digits.size() && value >= 1 &&
             value <= kMost;
    };
    const std::string_view view = text;
    std::int64_t length = 0;
    std::int64_t count = 1;
    if (!whole(view.substr(0, cross), length) ||
        (cross < text.size() && !whole(view.substr(cross + 1), count)) || count > kMost / length) {
      return wrong_sequences(module, text);
    }
    load += {.sequences = count, .units = length * count, .units_squared = length * length * count};
    if (load.units > kMostTogether) {
      return Error(ErrorCode::kInvalidArgument,
                   "--" + module + ": more than 1073741824 units together; give fewer sequences");
    }
  }
  return load;
}

Result<Load> load_of_options(const PredictArguments& arguments) {
  Load load;
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<CostModule>(i)));
    ISOCOST_ASSIGN(load.modules.at(i), parse_sequences(name, arguments.loads.at(i)));
  }
  return load;
}

Result<SampleExplanation> explain_named(const PredictArguments& arguments) {
  DatasetOptions options;
  options.index_dir = arguments.index_dir;
  options.reading = arguments.reading;
  NodeOptions node;
  ISOCOST_TRY(as_usage_error(apply(arguments.recipe, node)));
  options.model = model_directory(node.decode.recipe);
  options.limits.max_pixels = node.decode.max_decoded_pixels;
  options.stores = store_options_of(node.decode);
  options.progress = progress_bar();
  options.log = console_log(false);
  ISOCOST_ASSIGN(const NamedData data, as_usage_error(read_data(arguments.data, options.reading)));
  ISOCOST_ASSIGN(const auto dataset, Dataset::open(data.sources, options));
  finish_progress();
  log_findings(dataset->findings(), {}, options.log);
  ISOCOST_ASSIGN(const Recipe recipe, Recipe::create(node.decode.recipe));
  ISOCOST_ASSIGN(const SampleId id, find_sample(*dataset, arguments.sample, data.sources.given));
  return explain_sample(recipe, *dataset, id);
}

// Returns the bytes of a microbatch's activations that count for `max_memory`.
std::int64_t limited_bytes(const ModuleProfile& profile, const ModuleLoad& load) {
  const double bytes = activation_bytes_per_unit(profile) * static_cast<double>(load.units);
  return std::llround(std::min(bytes, static_cast<double>(ModuleMemory::kMost)));
}

// Explains a load. The terms are those of the fitted form, scaled so that they add up to the
// predicted seconds; what does not grow with the samples is the fixed one, launches included.
ModuleExplanation explain(const ModuleProfile& profile, const ModuleLoad& load,
                          std::int64_t in_flight) {
  const ModulePredictor predictor(profile);
  const ModuleCoefficients& c = predictor.coefficients();
  ModuleExplanation explanation{.load = load,
                                .seconds = predictor.microbatch(load),
                                .terms = {},
                                .origin = predictor.origin(load),
                                .uncertainty = predictor.uncertainty(load),
                                .memory = predict_memory(profile, load, in_flight),
                                .limited = limited_bytes(profile, load),
                                .frozen = is_frozen(profile),
                                .beyond_memory = beyond_memory(profile, load, in_flight),
                                .out_of_memory = profile.out_of_memory};
  Terms& terms = explanation.terms;
  terms = {0, c.per_sequence * static_cast<double>(load.sequences),
           c.per_unit * static_cast<double>(load.units),
           c.per_unit_squared * static_cast<double>(load.units_squared)};
  const double by_form = terms[1] + terms[2] + terms[3];
  const double of_samples = predictor.of_samples(load, predictor.sample(load));
  terms[0] = explanation.seconds - of_samples;
  if (by_form > 0) {
    const double scale = of_samples / by_form;
    for (std::size_t i = 1; i < terms.size(); ++i) terms.at(i) *= scale;
  }
  return explanation;
}

// Refuses ModuleMemory::kMost, which means every larger number of bytes.
Status check_memory(const std::string& module, const ModuleMemory& memory) {
  const bool beyond =
      std::max({memory.activations, memory.weights, memory.optimizer}) == ModuleMemory::kMost;
  if (!beyond) return {};
  return Error(ErrorCode::kInvalidArgument,
               module +
                   ": memory exceeds 2^60 bytes; give a smaller load, fewer "
                   "--in-flight, or another architecture in the profile");
}

nlohmann::ordered_json to_json(const ModuleLoad& load) {
  return {
      {"sequences", load.sequences}, {"units", load.units}, {"units_squared", load.units_squared}};
}

nlohmann::ordered_json to_json(const ModuleExplanation& module) {
  nlohmann::ordered_json terms;
  for (std::size_t i = 0; i < kTermNames.size(); ++i) terms[kTermNames.at(i)] = module.terms.at(i);
  const ModuleMemory& memory = module.memory;
  nlohmann::ordered_json json = to_json(module.load);
  json["seconds"] = module.seconds;
  json["terms_s"] = terms;
  json["origin"] = price_origin_name(module.origin);
  json["uncertainty"] = module.uncertainty;
  json["frozen"] = module.frozen;
  json["bytes"] = {{"activations", memory.activations},
                   {"activations_of_max_memory", module.limited},
                   {"activations_per_layer", memory.activations_per_layer},
                   {"weights", memory.weights},
                   {"gradients", memory.gradients},
                   {"optimizer", memory.optimizer},
                   {"total", memory.total()}};
  // null means that memory did not run out while the profile was measured.
  json["out_of_memory_at"] = nullptr;
  if (module.out_of_memory.units > 0) json["out_of_memory_at"] = to_json(module.out_of_memory);
  json["beyond_memory"] = module.beyond_memory;
  return json;
}

void print_row(std::string_view name, const ModuleExplanation& module) {
  std::printf("%-7s %9lld %9lld %10.4g", std::string(name).c_str(),
              static_cast<long long>(module.load.sequences),
              static_cast<long long>(module.load.units), 1e3 * module.seconds);
  for (const double term : module.terms) std::printf(" %10.4g", 1e3 * term);
  std::printf("  %s ± %.0f %%\n", std::string(price_origin_name(module.origin)).c_str(),
              100 * module.uncertainty);
}

void print_memory(std::string_view name, const ModuleExplanation& module) {
  const ModuleMemory& memory = module.memory;
  constexpr double kMebibyte = 1 << 20;
  std::printf("%-7s", std::string(name).c_str());
  for (const std::int64_t bytes :
       {memory.activations, module.limited, memory.activations_per_layer, memory.weights,
        memory.gradients, memory.optimizer, memory.total()}) {
    std::printf(" %11.1f", static_cast<double>(bytes) / kMebibyte);
  }
  std::printf("\n");
}

void print_notes(std::string_view name, const ModuleExplanation& module) {
  const std::string text(name);
  if (module.frozen) {
    std::printf("%s is frozen: no backward pass in the profile\n", text.c_str());
  }
  if (!module.beyond_memory) return;
  std::printf(
      "%s is at or beyond the load where memory ran out while profiling: %s, %s in "
      "total\n",
      text.c_str(), counted(module.out_of_memory.sequences, "sequence").c_str(),
      counted(module.out_of_memory.units, "unit").c_str());
}

void print_tables(const std::string& source,
                  const std::vector<std::pair<std::string, ModuleExplanation>>& modules,
                  double total_s) {
  std::printf("model profile: %s\n%-7s %9s %9s %10s %10s %10s %10s %10s  %s\n", source.c_str(),
              "module", "sequences", "units", "ms", "fixed", "sequences", "units", "attention",
              "from");
  for (const auto& [name, module] : modules) print_row(name, module);
  std::printf("total %32.4g ms, forward and backward, as the only sample of a microbatch\n",
              1e3 * total_s);
  std::printf("\n%-7s %11s %11s %11s %11s %11s %11s %11s\n", "MiB", "activations", "max_memory",
              "per layer", "weights", "gradients", "optimizer", "total");
  for (const auto& [name, module] : modules) print_memory(name, module);
  for (const auto& [name, module] : modules) print_notes(name, module);
}

Result<int> predict(const PredictArguments& arguments) {
  const bool by_key = !arguments.data.empty();
  const bool by_load = std::any_of(arguments.loads.begin(), arguments.loads.end(),
                                   [](const auto& texts) { return !texts.empty(); });
  if (by_key == by_load || arguments.sample.empty() == by_key) {
    return Error(ErrorCode::kInvalidArgument,
                 "name a sample with --data and --sample, or give its load with --vision, "
                 "--audio or --llm");
  }
  CostProfile profile = CostProfile::stated_default();
  if (!arguments.profile.empty()) {
    ISOCOST_ASSIGN(profile, as_usage_error(CostProfile::load(arguments.profile)));
  }
  std::optional<SampleExplanation> sample;
  Load load;
  if (by_key) {
    ISOCOST_ASSIGN(sample, explain_named(arguments));
    load = sample->load;
  } else {
    ISOCOST_ASSIGN(load, load_of_options(arguments));
  }
  std::vector<std::pair<std::string, ModuleExplanation>> modules;
  double total_s = 0;
  for (std::size_t i = 0; i < kModules; ++i) {
    if (load.modules.at(i).units == 0) continue;
    modules.emplace_back(module_name(static_cast<CostModule>(i)),
                         explain(profile.modules.at(i), load.modules.at(i), arguments.in_flight));
    ISOCOST_TRY(check_memory(modules.back().first, modules.back().second.memory));
    total_s += modules.back().second.seconds;
  }
  if (!arguments.json) {
    if (sample) print_parts(*sample);
    print_tables(profile.source, modules, total_s);
    return kDone;
  }
  nlohmann::ordered_json by_name = nlohmann::ordered_json::object();
  for (const auto& [name, module] : modules) by_name[name] = to_json(module);
  nlohmann::ordered_json json = {{"profile", profile.source},
                                 {"seconds", total_s},
                                 {"in_flight", arguments.in_flight},
                                 {"modules", by_name}};
  if (sample) json["sample"] = to_json(*sample);
  print_json(json);
  return kDone;
}

void PredictArguments::add_to(CLI::App& command) {
  command.add_option("--data", data, "What has the sample: " + std::string(kDataHelp))
      ->type_name("DATA");
  command
      .add_option("--sample", sample, "The sample's key, or SHARD/KEY where several shards have it")
      ->type_name("KEY");
  add_setting_flags(
      command, recipe, NodeOptions{},
      {"model", "image_size", "max_decoded_pixels", "ca_file", "cache", "cache_size"});
  add_index_and_reading(command, index_dir, reading);
  command
      .add_option("--profile", profile,
                  "Model profile (docs/model_profile.md); default: the built-in one")
      ->type_name("FILE");
  constexpr std::array<const char*, kModules> kHelp = {
      "Patches per image or frame, and how many of these", "Positions of an audio window",
      "Tokens of the packed sample"};
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<CostModule>(i)));
    command.add_option("--" + name, loads.at(i), kHelp.at(i))
        ->type_name("LENGTH[xCOUNT]")
        ->delimiter(',');
  }
  command
      .add_option(
          "--in-flight", in_flight,
          "Microbatches whose activations are kept at the same time, as on a pipeline stage")
      ->check(number_range(1, 1'000'000))
      ->capture_default_str();
  command.add_flag("--json", json, "Print JSON instead of text");
}

constexpr const char* kPredictFooter =
    "Examples:\n  isocost predict --data data/shards --sample cat/0042\n"
    "  isocost predict --data data/shards --model DIR --profile profile.json --sample cat/0042\n"
    "  isocost predict --profile profile.json --vision 1024x3,256 --llm 1200 --json\n"
    "Seconds are those of the model profile, without correction by measured steps. Memory is that\n"
    "of one rank that trains with Adam in mixed precision and shards nothing; max_memory has the\n"
    "activations of one microbatch as that limit counts them, by the most expensive unit. A note\n"
    "names modules whose load is at or above the one that ran out of memory while profiling.";

}  // namespace

void add_predict(CLI::App& app, Run& run) {
  add_command<PredictArguments>(
      app, run,
      {.name = "predict",
       .description =
           "Explain a sample's predicted cost: its parts and their tokens, load, seconds by "
           "term, memory.",
       .footer = kPredictFooter},
      predict);
}

}  // namespace isocost::cli
