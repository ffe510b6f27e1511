#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/place.h"
#include "base/output_file.h"
#include "base/scratch_directory.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/lab/emulated_trainer.h"
#include "cli/number_range.h"
#include "cli/trace_options.h"
#include "costmodel/sample_cost.h"
#include "loader/dataset/make_shards.h"
#include "loader/node/node.h"
#include "loader/node/node_thread.h"

namespace isocost::cli {
namespace {

constexpr std::size_t kEpochSteps = 8;
constexpr std::chrono::seconds kGoodbyes{5};

struct EmulateArguments {
  TraceOptions source;
  std::string layout;
  std::string schedule = "1f1b";
  std::string balance = "cost";
  std::size_t data = 8;
  std::size_t pipeline = 4;
  std::size_t encoder_stages = 1;
  std::size_t microbatches = 8;
  std::size_t global_batch_size = 256;
  std::size_t steps = 50;
  double step_seconds = 0.6;
  std::string hidden_profile;
  DisturbanceText disturbance;
  std::uint64_t seed = 0;
  std::string svg;
  bool json = false;
};

// Samples of a few bytes: what they cost comes from the trace.
Status write_shards(const std::filesystem::path& directory, std::size_t samples) {
  const std::filesystem::path manifest = directory / "manifest.jsonl";
  std::ofstream file(manifest);
  for (std::size_t i = 0; i < samples; ++i) {
    file << R"({"key": ")" << i << R"(", "parts": [{"name": "txt", "text": "sample )" << i
         << "\"}]}\n";
  }
  if (!file.flush()) return Error(ErrorCode::kIo, "cannot write " + manifest.string());
  ISOCOST_TRY(make_shards(manifest, directory / "shards", MakeShardsOptions{}));
  return {};
}

// The node plans for the pipeline that is emulated.
Status write_layout(const std::filesystem::path& directory, const Layout& layout) {
  std::ofstream file(directory / "layout.json");
  file << layout.to_json();
  if (!file.flush()) return Error(ErrorCode::kIo, "cannot write in " + directory.string());
  return {};
}

Result<NodeOptions> node_options(const EmulateArguments& arguments, const Layout& layout,
                                 const std::filesystem::path& directory) {
  NodeOptions options;
  options.data = directory / "shards";
  options.plan.ranks = static_cast<std::int64_t>(layout.llm.data);
  options.plan.global_batch_size = static_cast<std::int64_t>(arguments.global_batch_size);
  options.plan.microbatches = static_cast<std::int64_t>(layout.microbatches);
  options.plan.layout = directory / "layout.json";
  options.plan.epochs = 0;
  options.plan.seed = arguments.seed;
  options.plan.profile = arguments.source.profile;
  options.bad_samples.file = directory / "bad.jsonl";
  options.service.bind = "tcp://127.0.0.1:*";
  if (!arguments.svg.empty()) options.service.metrics = "127.0.0.1:0";  // with which pictures come
  if (arguments.balance != "cost" && arguments.balance != "in-order") {
    return Error(ErrorCode::kInvalidArgument,
                 "--balance is '" + arguments.balance + "'; there are none and isocost");
  }
  if (arguments.balance == "in-order") options.plan.balance = BalancePolicy::kInOrder;
  return options;
}

Status check_layout(const EmulateArguments& arguments, const Layout& layout) {
  constexpr std::size_t kMostThreads = 4096;
  if (receivers(layout) > kMostThreads) {
    return Error(
        ErrorCode::kInvalidArgument,
        std::to_string(receivers(layout)) + " stages of replicas: a thread each, 4096 at most");
  }
  if (layout.schedule == Schedule::kInterleaved1F1B) {
    return Error(ErrorCode::kInvalidArgument,
                 "schedule interleaved: emulate knows gpipe, 1f1b and zb-h1");
  }
  if (arguments.global_batch_size < layout.llm.data * layout.microbatches) {
    return Error(ErrorCode::kInvalidArgument,
                 "--global-batch is " + std::to_string(arguments.global_batch_size) +
                     "; there are " + std::to_string(layout.llm.data * layout.microbatches) +
                     " microbatches (replicas x microbatches) to fill");
  }
  return {};
}

Result<Layout> layout_of_flags(const EmulateArguments& arguments) {
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule) {
    return Error(ErrorCode::kInvalidArgument,
                 "--schedule is '" + arguments.schedule + "'; emulate knows gpipe, 1f1b and zb-h1");
  }
  if (arguments.encoder_stages >= arguments.pipeline) {
    return Error(ErrorCode::kInvalidArgument,
                 "--encoder-pp is " + std::to_string(arguments.encoder_stages) +
                     "; it must be below --pp (" + std::to_string(arguments.pipeline) + ")");
  }
  return Layout{.encoder = {1, arguments.encoder_stages, arguments.data},
                .llm = {1, arguments.pipeline - arguments.encoder_stages, arguments.data},
                .microbatches = arguments.microbatches,
                .schedule = *schedule};
}

Result<Layout> layout_of(const EmulateArguments& arguments) {
  if (arguments.layout.empty()) {
    ISOCOST_ASSIGN(Layout layout, layout_of_flags(arguments));
    ISOCOST_TRY(check_layout(arguments, layout));
    return layout;
  }
  ISOCOST_ASSIGN(Layout layout, of_given(Layout::load(arguments.layout)));
  ISOCOST_TRY_CONTEXT(check_layout(arguments, layout), arguments.layout);
  return layout;
}

struct Comparison {
  double measured_s = 0;  // means a step
  double simulated_s = 0;
  double data_wait_share = 0;
  double largest_error = 0;   // of a single step
  std::size_t decoupled = 0;  // steps
  std::vector<double> step_s;

  double error() const { return measured_s / simulated_s - 1; }
};

Result<Comparison> compare(const EmulatedJob& job, const std::vector<EmulatedStep>& steps) {
  Comparison comparison;
  const auto n = static_cast<double>(steps.size());
  double waited = 0;
  for (const EmulatedStep& step : steps) {
    ISOCOST_ASSIGN(const PipelineReport report, simulate(step.work));
    const double simulated = report.step_s * job.time_scale;
    comparison.measured_s += step.seconds / n;
    comparison.simulated_s += simulated / n;
    comparison.largest_error =
        std::max(comparison.largest_error, std::abs(step.seconds / simulated - 1));
    if (!step.coupled) ++comparison.decoupled;
    waited += step.data_wait_s / n;
    comparison.step_s.push_back(step.seconds);
  }
  comparison.data_wait_share = waited / comparison.measured_s;
  return comparison;
}

nlohmann::ordered_json learnt_json(const NodeMetrics& node) {
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (std::size_t m = 0; m < kModules; ++m) {
    const double error = node.summary.mape.at(m);
    if (std::isfinite(error)) errors[std::string(module_name(static_cast<Module>(m)))] = error;
  }
  return {{"mape", errors},
          {"correction_on", node.correction.on},
          {"gain", node.correction.gain},
          {"overhead", node.correction.overhead},
          {"drifts", node.correction.drifts},
          {"rank_slowdowns", node.correction.rank_slowdowns}};
}

void print_learnt(const NodeMetrics& node) {
  std::printf("prediction      off by");
  for (std::size_t m = 0; m < kModules; ++m) {
    const double error = node.summary.mape.at(m);
    if (!std::isfinite(error)) continue;
    std::printf(" %.1f %% (%s)", 100 * error,
                std::string(module_name(static_cast<Module>(m))).c_str());
  }
  const CorrectionStatus& correction = node.correction;
  std::printf("\ncorrection      %s: gain %.2f %% against overhead %.3f %%; %llu drifts\n",
              correction.on ? "on" : "shut", 100 * correction.gain, 100 * correction.overhead,
              static_cast<unsigned long long>(correction.drifts));
  const auto& slowdowns = correction.rank_slowdowns;
  if (slowdowns.empty()) return;
  const auto slowest = std::max_element(slowdowns.begin(), slowdowns.end());
  std::printf("rank slowdowns     %.3f to %.3f (rank %td)\n",
              *std::min_element(slowdowns.begin(), slowdowns.end()), *slowest,
              slowest - slowdowns.begin());
}

void print(const EmulateArguments& arguments, const EmulatedJob& job, const Comparison& result,
           const NodeMetrics& metrics) {
  const NodeSummary& node = metrics.summary;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"emulated", true},
                                         {"layout", job.layout.to_string()},
                                         {"trainers", receivers(job.layout)},
                                         {"steps", arguments.steps},
                                         {"decoupled_steps", result.decoupled},
                                         {"warm_up_steps", job.warm_up},
                                         {"time_scale", job.time_scale},
                                         {"measured_step_s", result.measured_s},
                                         {"simulated_step_s", result.simulated_s},
                                         {"relative_error", result.error()},
                                         {"largest_step_error", result.largest_error},
                                         {"data_wait_share", result.data_wait_share},
                                         {"delivered", node.delivered},
                                         {"plan_seconds_mean", node.plan_seconds_mean},
                                         {"learned", learnt_json(metrics)},
                                         {"step_s", result.step_s}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf(
      "EMULATED: %s; %zu stages as\n"
      "threads that wait instead of computing; node, sockets and plans are real. A modelled "
      "second\n"
      "took %.4f s. %zu steps after %zu to warm up.\n",
      job.layout.to_string().c_str(), receivers(job.layout), job.time_scale, arguments.steps,
      job.warm_up);
  std::printf("emulated step   %.4f s\nsimulated step  %.4f s (%+.2f %%; worst step %.2f %%)\n",
              result.measured_s, result.simulated_s, 100 * result.error(),
              100 * result.largest_error);
  std::printf("data-wait       %.3f %% of the step\nplanning        %.1f ms a step\n",
              100 * result.data_wait_share, 1e3 * node.plan_seconds_mean);
  if (job.layout.encoder_place == EncoderPlace::kOwnRanks) {
    std::printf("decoupled       %zu of %zu steps\n", result.decoupled, arguments.steps);
  }
  print_learnt(metrics);
}

Result<int> emulate(const EmulateArguments& arguments) {
  ISOCOST_TRY(check_output_file("--svg", arguments.svg));
  ISOCOST_ASSIGN(const Layout layout, layout_of(arguments));
  for (const std::string& warning : layout.warnings()) {
    std::fprintf(stderr, "note: %s\n", warning.c_str());
  }
  const SignalStop signals;
  ISOCOST_ASSIGN(const TraceMix mix, arguments.source.read());
  ISOCOST_ASSIGN(JobModel job, arguments.source.job());
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(layout.interconnect));
  if (!arguments.hidden_profile.empty()) {
    ISOCOST_ASSIGN(job.profile, of_given(CostProfile::load(arguments.hidden_profile)));
  }
  const SamplePrices prices(job.profile);
  Random random(arguments.seed);
  const std::size_t samples =
      arguments.global_batch_size * std::min(kEpochSteps, arguments.steps + 1);
  const std::vector<Load> loads = mix.draw(samples, random);
  SampleCost mean;
  for (const Load& load : loads) mean += prices.of(load);
  const auto n = static_cast<double>(samples);
  mean = {mean.encoder_s / n, mean.llm_s / n, mean.encoder_units / n, mean.llm_units / n};
  EmulatedJob trainers{.job = job, .layout = layout, .loads = loads, .steps = arguments.steps};
  ISOCOST_ASSIGN(
      trainers.disturbance,
      parse_disturbance(arguments.disturbance, std::max(layout.llm.data, layout.encoder.data)));
  trainers.disturbance.seed = arguments.seed;
  ISOCOST_ASSIGN(trainers.model, make_pipeline(job, layout, mean));
  const std::vector<SampleCost> batch(arguments.global_batch_size, spread_load(job, layout, mean));
  trainers.time_scale = arguments.step_seconds / pipeline_bound(trainers.model, batch);

  ISOCOST_ASSIGN(const ScratchDirectory scratch, ScratchDirectory::create("isocost-emulate"));
  ISOCOST_TRY(write_shards(scratch.path(), samples));
  ISOCOST_TRY(write_layout(scratch.path(), layout));
  ISOCOST_ASSIGN(const NodeOptions options, node_options(arguments, layout, scratch.path()));
  const LoadHook loads_of_trace = [&loads](SampleId id, const Dataset&,
                                           const Load& load) -> Result<Load> {
    Load traced = load;  // label tokens and bytes stay those of the real, small sample
    traced.modules = loads[id % loads.size()].modules;
    return traced;
  };
  ISOCOST_ASSIGN(std::unique_ptr<Node> node, Node::create(options, {}, {}, loads_of_trace));
  trainers.endpoint = node->endpoint();
  NodeThread serving(std::move(node));
  const auto steps = emulate_trainers(trainers, signals.token());
  // The last reports come before the trainers leave.
  if (steps) serving.node().wait_until_left(kGoodbyes);
  const NodeMetrics metrics = serving.node().metrics();
  const std::string picture = serving.node().timeline_svg();
  ISOCOST_TRY(serving.stop());
  if (!steps) return steps.error();
  ISOCOST_ASSIGN(const Comparison result, compare(trainers, *steps));
  if (!arguments.svg.empty()) ISOCOST_TRY(replace_file(arguments.svg, picture));
  print(arguments, trainers, result, metrics);
  return 0;
}

void add_options(CLI::App& command, EmulateArguments& arguments) {
  const auto count = [&command](const char* name, std::size_t& value, const char* text,
                                std::size_t most) {
    command.add_option(name, value, text)
        ->check(CLI::Range(std::size_t{1}, most))
        ->capture_default_str();
  };
  arguments.source.add_to(command);
  auto* layout = command
                     .add_option("--layout", arguments.layout,
                                 "Layout file of 'isocost plan', instead of the degrees below")
                     ->type_name("FILE");
  count("--dp", arguments.data, "Data-parallel ranks", 1024);
  count("--pp", arguments.pipeline, "Stages of each, a thread each", 64);
  count("--encoder-pp", arguments.encoder_stages, "Stages of these for the encoder", 63);
  count("--microbatches", arguments.microbatches, "Per rank and step", 4096);
  count("--global-batch", arguments.global_batch_size, "Samples a step", 1'000'000);
  count("--steps", arguments.steps, "Steps to count, after one to warm up", 1'000'000);
  command.add_option("--schedule", arguments.schedule, "gpipe, 1f1b or zb-h1")
      ->capture_default_str();
  for (const char* of_it : {"--dp", "--pp", "--encoder-pp", "--microbatches", "--schedule"}) {
    layout->excludes(command.get_option(of_it));
  }
  command.add_option("--balance", arguments.balance, "none or isocost")->capture_default_str();
  command
      .add_option("--step-seconds", arguments.step_seconds,
                  "Modelled seconds are scaled so that the busiest stage works so long a step")
      ->check(number_range(0.01, 1000))
      ->capture_default_str();
  command
      .add_option("--hidden-profile", arguments.hidden_profile,
                  "What passes really take, where that is not the profile that the node plans by")
      ->type_name("FILE");
  command
      .add_option("--noise", arguments.disturbance.noise,
                  "Standard deviation of a microbatch's seconds, relative")
      ->check(number_range(0, 1))
      ->capture_default_str();
  command
      .add_option("--slow-rank", arguments.disturbance.slow_rank,
                  "A data index whose passes take longer, of both modules, for some of the steps: "
                  "3:1.2@50-150")
      ->type_name("INDEX:FACTOR[@FROM[-UNTIL]]");
  command
      .add_option("--change", arguments.disturbance.changes,
                  "A module that takes longer from a step on, as if it were unfrozen: "
                  "encoder:3@100; once a "
                  "module")
      ->type_name("MODULE:FACTOR[@FROM[-UNTIL]]")
      ->allow_extra_args(false);
  command.add_option("--seed", arguments.seed, "Of the samples drawn")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--svg", arguments.svg,
                  "Draw the last step, as predicted and as its trainers report it")
      ->type_name("FILE");
  command.add_flag("--json", arguments.json, "Print JSON instead of text");
}

}  // namespace

void add_emulate(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "emulate", "Serve emulated trainers: real node, sockets and plans; passes are waited out.");
  auto arguments = std::make_shared<EmulateArguments>();
  add_options(*command, *arguments);
  command->footer(
      "Small samples are made in a temporary directory; what they cost comes from the traces or "
      "the data.\n"
      "Examples:\n"
      "  isocost emulate --trace documents.csv,videos.csv --dp 8 --pp 4 --steps 50\n"
      "  isocost emulate --trace a.csv --dp 16 --pp 2 --balance none --json\n"
      "  isocost emulate --trace a.csv --layout layout.json --global-batch 512\n"
      "  isocost emulate --trace a.csv --dp 8 --pp 2 --steps 200 --noise 0.03 --slow-rank "
      "3:1.2@50-150");
  command->callback(
      [arguments, &run] { run = [arguments] { return exit_status(emulate(*arguments)); }; });
}

}  // namespace isocost::cli
