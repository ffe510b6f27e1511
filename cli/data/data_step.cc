#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/number_range.h"
#include "cli/common/setting_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/data/data_commands.h"
#include "cli/data/source_names.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/source_number.h"
#include "loader/node/step_preview.h"

namespace isocost::cli {
namespace {

struct DataStepArguments {
  std::string data;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::string config;
  GivenSettings settings;
  bool json = false;
  bool verbose = false;

  void add_to(CLI::App& command);
};

// Sums of a step's samples, of all or of a source.
struct StepSums {
  std::uint64_t samples = 0;
  std::uint64_t bad = 0;
  std::int64_t tokens = 0;
  std::int64_t label_tokens = 0;
  double seconds = 0;

  void add(const PreviewedSample& sample) {
    samples += 1;
    bad += sample.bad.empty() ? 0U : 1U;
    tokens += sample.load[CostModule::kLlm].units;
    label_tokens += sample.load.label_tokens;
    seconds += std::accumulate(sample.seconds.begin(), sample.seconds.end(), 0.0);
  }
};

double seconds_of(const PreviewedSample& sample) {
  return std::accumulate(sample.seconds.begin(), sample.seconds.end(), 0.0);
}

std::vector<StepSums> sums_by_source(const Dataset& dataset, const PreviewedStep& step) {
  std::vector<StepSums> sums(dataset.sources().size());
  for (const PreviewedSample& sample : step.samples) {
    sums[source_number(dataset, sample.id)].add(sample);
  }
  return sums;
}

nlohmann::ordered_json sums_json(const StepSums& sums) {
  return {{"samples", sums.samples},
          {"bad", sums.bad},
          {"tokens", sums.tokens},
          {"label_tokens", sums.label_tokens},
          {"seconds", sums.seconds}};
}

nlohmann::ordered_json previewed_json(const Dataset& dataset, const PreviewedSample& sample) {
  nlohmann::ordered_json json = {{"sample", sample.name}};
  if (has_sources(dataset)) {
    json["source"] = dataset.sources()[source_number(dataset, sample.id)].name;
  }
  json["tokens"] = sample.load[CostModule::kLlm].units;
  json["label_tokens"] = sample.load.label_tokens;
  json["seconds"] = seconds_of(sample);
  if (sample.place) {
    json["rank"] = sample.place->rank;
    json["microbatch"] = sample.place->microbatch;
  }
  if (!sample.bad.empty()) json["bad"] = sample.bad;
  return json;
}

void print_step_json(const DataStepArguments& arguments, const StepPreview& preview,
                     const PreviewedStep& step, const StepSums& all) {
  const Dataset& dataset = preview.dataset();
  nlohmann::ordered_json json = {
      {"epoch", arguments.epoch}, {"step", arguments.step}, {"steps", nullptr}};
  if (const auto steps = preview.steps(arguments.epoch)) json["steps"] = *steps;
  json.update(sums_json(all));
  if (has_sources(dataset)) {
    const std::vector<StepSums> sums = sums_by_source(dataset, step);
    json["sources"] = nlohmann::ordered_json::array();
    for (std::size_t s = 0; s < sums.size(); ++s) {
      nlohmann::ordered_json source = {{"name", dataset.sources()[s].name}};
      source.update(sums_json(sums[s]));
      json["sources"].push_back(std::move(source));
    }
  }
  json["drawn"] = nlohmann::ordered_json::array();
  for (const PreviewedSample& sample : step.samples) {
    json["drawn"].push_back(previewed_json(dataset, sample));
  }
  print_json(json);
}

void print_sums(const Dataset& dataset, const PreviewedStep& step) {
  std::printf("\n%8s %8s %10s %10s %11s  %s\n", "samples", "share", "tokens", "labels", "seconds",
              "source");
  const std::vector<StepSums> sums = sums_by_source(dataset, step);
  for (std::size_t s = 0; s < sums.size(); ++s) {
    const double share =
        static_cast<double>(sums[s].samples) / static_cast<double>(step.samples.size());
    std::printf("%8llu %6.1f %% %10lld %10lld %11.4g  %s\n",
                static_cast<unsigned long long>(sums[s].samples), 100 * share,
                static_cast<long long>(sums[s].tokens),
                static_cast<long long>(sums[s].label_tokens), sums[s].seconds,
                dataset.sources()[s].name.c_str());
  }
}

void print_samples(const PreviewedStep& step) {
  std::printf("\n");
  if (step.planned) std::printf("%5s %10s ", "rank", "microbatch");
  std::printf("%10s %10s %11s  %s\n", "tokens", "labels", "seconds", "sample");
  for (const PreviewedSample& sample : step.samples) {
    if (sample.place) {
      std::printf("%5u %10u ", sample.place->rank, sample.place->microbatch);
    } else if (step.planned) {
      std::printf("%5s %10s ", "-", "-");
    }
    if (sample.bad.empty()) {
      std::printf("%10lld %10lld %11.4g  %s\n",
                  static_cast<long long>(sample.load[CostModule::kLlm].units),
                  static_cast<long long>(sample.load.label_tokens), seconds_of(sample),
                  sample.name.c_str());
    } else {
      std::printf("%10s %10s %11s  %s: bad: %s\n", "-", "-", "-", sample.name.c_str(),
                  sample.bad.c_str());
    }
  }
}

void print_step(const DataStepArguments& arguments, const StepPreview& preview,
                const PreviewedStep& step, const StepSums& all) {
  const auto steps = preview.steps(arguments.epoch);
  std::printf("epoch %llu, step %llu%s: %s, %lld tokens, %lld label tokens, %.4g s predicted%s\n",
              static_cast<unsigned long long>(arguments.epoch),
              static_cast<unsigned long long>(arguments.step),
              steps ? (" of " + std::to_string(*steps)).c_str() : "",
              counted(all.samples, "sample").c_str(), static_cast<long long>(all.tokens),
              static_cast<long long>(all.label_tokens), all.seconds,
              all.bad > 0 ? (", " + std::to_string(all.bad) + " bad").c_str() : "");
  if (has_sources(preview.dataset())) print_sums(preview.dataset(), step);
  print_samples(step);
  if (!step.planned && all.bad < all.samples) {
    std::printf("\n--ranks N shows the rank and the microbatch of each sample\n");
  }
}

Result<NodeOptions> node_options(const DataStepArguments& arguments) {
  GivenSettings settings;
  ISOCOST_TRY(add_config(settings, arguments.config));
  settings.add(*find_node_option("data"), arguments.data, "DATA");
  settings.add(arguments.settings);
  return make_options(settings, isolated_defaults());
}

Result<int> data_step(const DataStepArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const NodeOptions options, as_usage_error(node_options(arguments)));
  ISOCOST_ASSIGN(
      const auto preview,
      StepPreview::open(options, progress_bar(), console_log(arguments.verbose), signals.token()));
  finish_progress();
  ISOCOST_ASSIGN(const PreviewedStep step, preview->step(arguments.epoch, arguments.step));
  StepSums all;
  for (const PreviewedSample& sample : step.samples) all.add(sample);
  if (arguments.json) {
    print_step_json(arguments, *preview, step, all);
  } else {
    print_step(arguments, *preview, step, all);
  }
  return kDone;
}

void DataStepArguments::add_to(CLI::App& command) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
  command.add_option("DATA", data, "What has the samples: " + std::string(kDataHelp))->required();
  command.add_option("STEP", step, "The step, from 0 on")
      ->required()
      ->check(number_range(std::int64_t{0}, kMost));
  add_count(command, "--epoch", epoch, 0, kMost, "The step's epoch, from 0 on");
  command
      .add_option("--config", config, "TOML file of a node's settings; DATA and flags override it")
      ->type_name("FILE");
  add_setting_flags(command, settings, isolated_defaults(),
                    {"ranks",
                     "global_batch_size",
                     "microbatches",
                     "max_tokens",
                     "max_vision_tokens",
                     "max_memory",
                     "on_long",
                     "dummy_media",
                     "layout",
                     "balance",
                     "lookahead",
                     "epochs",
                     "steps",
                     "skip_steps",
                     "seed",
                     "shuffle",
                     "shuffle_shards",
                     "tail",
                     "profile",
                     "padded",
                     "padded_multiple",
                     "correction_file",
                     "model",
                     "image_size",
                     "recipe.name",
                     "recipe.max_image_patches",
                     "recipe.max_frame_patches",
                     "recipe.video_fps",
                     "recipe.max_video_frames",
                     "recipe.max_audio_seconds",
                     "recipe.max_text_tokens",
                     "max_bad_samples",
                     "allow_broken_shards",
                     "accept_unread_archives",
                     "max_decoded_pixels",
                     "memory",
                     "microbatch_memory",
                     "index_dir",
                     "ca_file",
                     "cache",
                     "cache_size",
                     "ignore_parts",
                     "weight_key",
                     "media_root",
                     "number_keys"});
  command.add_flag("--json", json, "Print JSON instead of text");
  command.add_flag("--verbose", verbose, "Log debug messages as well");
}

constexpr const char* kDataStepFooter =
    "Examples:\n"
    "  isocost data step mixture.toml 0 --global-batch-size 256\n"
    "  isocost data step data/shards 0 --epochs 2 --epoch 1 --seed 7 --ranks 8\n"
    "  isocost data step mixture.toml 20000 --config node.toml --json\n"
    "The flags are those of 'isocost serve', and so are the samples: the node's own code draws\n"
    "them. Nothing is decoded, so a sample that proves bad then is shown as good, and what takes\n"
    "its place is not known. Ranks and microbatches are those of a node that has measured nothing\n"
    "yet, in a job that begins anew. Seconds are those of the model profile. Steps that "
    "skip_steps\n"
    "leaves out do not count.";

}  // namespace

void add_data_step(CLI::App& data, Run& run) {
  add_command<DataStepArguments>(data, run,
                                 {.name = "step",
                                  .description = "Show which samples a step of training gets.",
                                  .footer = kDataStepFooter},
                                 data_step);
}

}  // namespace isocost::cli
