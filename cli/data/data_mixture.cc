#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/output_file.h"
#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/number_range.h"
#include "cli/common/overwrite.h"
#include "cli/common/setting_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/data/data_commands.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/node/step_preview.h"
#include "loader/plan/mixture/mixture_course.h"
#include "loader/report/mixture_svg.h"

namespace isocost::cli {
namespace {

struct DataMixtureArguments {
  std::string data;
  std::uint64_t steps = 0;
  std::string config;
  std::string svg;
  bool force = false;
  GivenSettings settings;
  bool json = false;
  bool verbose = false;

  void add_to(CLI::App& command);
};

// Returns a source's share of the samples between two neighbouring edges.
double share_of(const MixtureCourse& course, std::size_t source, std::size_t edge) {
  double all = 0;
  for (const MixtureCourse::Source& each : course.sources) {
    all += static_cast<double>(each.drawn[edge + 1] - each.drawn[edge]);
  }
  const MixtureCourse::Source& own = course.sources[source];
  return all == 0 ? 0 : static_cast<double>(own.drawn[edge + 1] - own.drawn[edge]) / all;
}

double times_read(const MixtureCourse::Source& source) {
  return static_cast<double>(source.drawn.back()) / static_cast<double>(source.size);
}

nlohmann::ordered_json course_json(const MixtureCourse& course) {
  nlohmann::ordered_json json = {{"steps", course.edges.back()}, {"edges", course.edges}};
  json["sources"] = nlohmann::ordered_json::array();
  for (const MixtureCourse::Source& source : course.sources) {
    nlohmann::ordered_json each = {
        {"name", source.name},          {"samples", source.size},
        {"given", source.drawn.back()}, {"times_read", times_read(source)},
        {"ended_with", nullptr},        {"given_before", source.drawn}};
    if (source.ended_with != MixtureCourse::kNever) each["ended_with"] = source.ended_with;
    json["sources"].push_back(std::move(each));
  }
  return json;
}

std::string title_of(const DataMixtureArguments& arguments, const Mixture& mixture,
                     const MixtureCourse& course) {
  return arguments.data + ": " + counted(course.edges.back(), "step") + " of " +
         counted(mixture.options().global_batch_size, "sample") +
         (mixture.length() ? "" : ", without an end");
}

void print_course(const MixtureCourse& course, const std::string& title) {
  std::printf("%s\n\n%12s %12s %8s %9s %9s %10s  %s\n", title.c_str(), "samples", "given", "read",
              "at first", "at last", "ends with", "source");
  for (std::size_t i = 0; i < course.sources.size(); ++i) {
    const MixtureCourse::Source& source = course.sources[i];
    const std::string end =
        source.ended_with == MixtureCourse::kNever ? "" : std::to_string(source.ended_with);
    std::printf("%12llu %12llu %7.2fx %7.1f %% %7.1f %% %10s  %s\n",
                static_cast<unsigned long long>(source.size),
                static_cast<unsigned long long>(source.drawn.back()), times_read(source),
                100 * share_of(course, i, 0), 100 * share_of(course, i, course.edges.size() - 2),
                end.c_str(), source.name.c_str());
  }
}

Result<NodeOptions> node_options(const DataMixtureArguments& arguments) {
  GivenSettings settings;
  ISOCOST_TRY(add_config(settings, arguments.config));
  settings.add(*find_node_option("data"), arguments.data, "MIXTURE");
  settings.add(arguments.settings);
  return make_options(settings, isolated_defaults());
}

Result<int> data_mixture(const DataMixtureArguments& arguments) {
  ISOCOST_TRY(check_new_file("--svg", arguments.svg, arguments.force));
  const SignalStop signals;
  ISOCOST_ASSIGN(const NodeOptions options, as_usage_error(node_options(arguments)));
  if (options.mixture == nullptr) {
    return as_usage_error(
        Error(ErrorCode::kInvalidArgument,
              arguments.data +
                  " is no mixture: give the TOML file of one (docs/mixtures.md), or look at a "
                  "data set with isocost data ls"));
  }
  ISOCOST_ASSIGN(
      const auto preview,
      StepPreview::open(options, progress_bar(), console_log(arguments.verbose), signals.token()));
  finish_progress();
  const Mixture& mixture = *preview->mixture();
  const std::uint64_t asked = arguments.steps > 0 ? arguments.steps : positions_to_show(mixture);
  const std::uint64_t steps = std::min(asked, mixture.length().value_or(asked));
  constexpr std::size_t kEdges = 201;
  ISOCOST_ASSIGN(const MixtureCourse course, course_of(mixture, steps, kEdges, signals.token()));
  const std::string title = title_of(arguments, mixture, course);
  if (arguments.json) {
    print_json(course_json(course));
  } else {
    print_course(course, title);
  }
  if (!arguments.svg.empty()) ISOCOST_TRY(replace_file(arguments.svg, draw_mixture(course, title)));
  return kDone;
}

void DataMixtureArguments::add_to(CLI::App& command) {
  command.add_option("MIXTURE", data, "The file of a mixture")->required();
  add_count(command, "--until", steps, 1, std::int64_t{1} << 32,
            "Steps to look at, the mixture's length at most; without it, the length, or a quarter "
            "more than the last breakpoint");
  command.add_option("--svg", svg, "Draw shares and passes by step")->type_name("FILE");
  add_force(command, force);
  command
      .add_option("--config", config,
                  "TOML file of a node's settings; MIXTURE and flags override it")
      ->type_name("FILE");
  add_setting_flags(
      command, settings, isolated_defaults(),
      {"global_batch_size", "steps", "skip_steps", "seed", "max_bad_samples", "allow_broken_shards",
       "accept_unread_archives", "max_decoded_pixels", "index_dir", "ca_file", "cache",
       "cache_size", "model", "ignore_parts", "weight_key", "media_root", "number_keys"});
  command.add_flag("--json", json, "Print JSON instead of text");
  command.add_flag("--verbose", verbose, "Log debug messages as well");
}

constexpr const char* kDataMixtureFooter =
    "Examples:\n"
    "  isocost data mixture mixture.toml --global-batch-size 256\n"
    "  isocost data mixture mixture.toml --until 100000 --svg mixture.svg\n"
    "The counts are those that the steps of training will have: the node's own code draws them.\n"
    "Steps are positions here: those that skip_steps leaves out are counted, too. --json has the\n"
    "samples given before each of up to 201 edges.";

}  // namespace

void add_data_mixture(CLI::App& data, Run& run) {
  add_command<DataMixtureArguments>(
      data, run,
      {.name = "mixture",
       .description = "Show what the sources of a mixture will give, and how often each is read.",
       .footer = kDataMixtureFooter},
      data_mixture);
}

}  // namespace isocost::cli
