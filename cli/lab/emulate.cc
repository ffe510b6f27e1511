#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "base/output_file.h"
#include "base/scratch_directory.h"
#include "cli/common/exit_status.h"
#include "cli/common/overwrite.h"
#include "cli/common/signal_stop.h"
#include "cli/lab/commands.h"
#include "cli/lab/emulate_arguments.h"
#include "cli/lab/emulate_layout.h"
#include "cli/lab/emulate_output.h"
#include "cli/lab/emulated_pipeline.h"
#include "cli/trace/sampled_batches.h"
#include "loader/config/option_table.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/node/node.h"
#include "loader/node/node_thread.h"

namespace isocost::cli {
namespace {

constexpr std::size_t kEpochSteps = 8;
constexpr std::chrono::seconds kDrainTimeout{5};

// Writes samples of a few bytes, whose costs come from the trace.
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

Result<NodeOptions> node_options(const EmulateArguments& arguments, const Layout& layout,
                                 const std::filesystem::path& directory) {
  NodeOptions options;
  options.data = directory / "shards";
  options.plan.use_layout(std::make_shared<const Layout>(layout), arguments.layout);
  options.plan.global_batch_size = static_cast<std::int64_t>(arguments.global_batch_size);
  options.plan.epochs = 0;
  options.plan.seed = arguments.seed;
  options.cost_model.profile_file = arguments.source.profile;
  options.bad_samples.file = directory / "bad.jsonl";
  options.service.bind = "tcp://127.0.0.1:*";
  if (!arguments.svg.empty()) options.service.metrics = "127.0.0.1:0";  // the timeline needs them
  ISOCOST_TRY_CONTEXT(find_node_option("balance")->set(options, arguments.balance), "--balance");
  return options;
}

// Returns trainers whose busiest stage works for --step-seconds. `loads` must outlive them.
Result<EmulatedJob> trainers_of(const EmulateArguments& arguments, const Layout& layout,
                                std::span<const Load> loads) {
  ISOCOST_ASSIGN(JobModel job, arguments.source.job());
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(layout.interconnect));
  if (!arguments.hidden_profile.empty()) {
    ISOCOST_ASSIGN(job.profile, as_usage_error(CostProfile::load(arguments.hidden_profile)));
  }
  const SampleCost mean = isocost::mean(costs_of(loads, job.profile));
  EmulatedJob trainers{.job = job,
                       .layout = layout,
                       .loads = loads,
                       .virtual_clock = arguments.virtual_clock,
                       .steps = arguments.steps};
  ISOCOST_ASSIGN(
      trainers.disturbance,
      parse_disturbance(arguments.disturbance, std::max(layout.llm.data, layout.encoder.data)));
  trainers.disturbance.seed = arguments.seed;
  trainers.disturbance.anomalies.choose_lengths(loads, arguments.seed);
  ISOCOST_ASSIGN(trainers.model, make_pipeline(job, layout, mean));
  const std::vector<SampleCost> batch(arguments.global_batch_size, spread_load(job, layout, mean));
  trainers.time_scale = arguments.step_seconds / pipeline_bound(trainers.model, batch);
  return trainers;
}

struct Emulation {
  EmulationReport report;
  NodeMetrics metrics;
  std::string picture;
};

// Runs the trainers against a node of these options.
Result<Emulation> run(const NodeOptions& options, EmulatedJob& trainers,
                      const std::stop_token& stop) {
  const LoadHook loads_of_trace = [&trainers](SampleId id, const Dataset&,
                                              const Load& load) -> Result<Load> {
    Load traced = load;  // label tokens and bytes stay those of the small sample
    traced.modules = trainers.loads[id % trainers.loads.size()].modules;
    return traced;
  };
  ISOCOST_ASSIGN(std::unique_ptr<Node> node, Node::create(options, {}, {}, loads_of_trace));
  trainers.endpoint = node->endpoint();
  NodeThread serving(std::move(node));
  const auto steps = run_emulated_pipeline(trainers, stop);
  // The last reports arrive before the trainers leave.
  if (steps) serving.node().wait_until_left(kDrainTimeout);
  Emulation emulation{
      .report = {}, .metrics = serving.node().metrics(), .picture = serving.node().timeline_svg()};
  ISOCOST_TRY(serving.stop());
  if (!steps) return steps.error();
  ISOCOST_ASSIGN(emulation.report, compare_with_simulator(trainers, *steps));
  return emulation;
}

// Returns the seconds of the same steps without correction and measuring.
Result<double> uncorrected_step_s(NodeOptions options, EmulatedJob trainers,
                                  const std::stop_token& stop) {
  options.cost_model.correct = false;
  trainers.disturbance.measuring_cost = 0;
  ISOCOST_ASSIGN(const Emulation emulation, run(options, trainers, stop));
  return emulation.report.emulated_s;
}

Result<int> emulate(const EmulateArguments& arguments) {
  ISOCOST_TRY(check_new_file("--svg", arguments.svg, arguments.force));
  ISOCOST_ASSIGN(const Layout layout, layout_of(arguments));
  for (const std::string& warning : layout.warnings()) {
    std::fprintf(stderr, "note: %s\n", warning.c_str());
  }
  const SignalStop signals;
  ISOCOST_ASSIGN(const TraceMix mix, arguments.source.read(signals.token()));
  Random random(arguments.seed);
  const std::vector<Load> loads =
      mix.draw(arguments.global_batch_size * std::min(kEpochSteps, arguments.steps + 1), random);
  ISOCOST_ASSIGN(EmulatedJob trainers, trainers_of(arguments, layout, loads));

  ISOCOST_ASSIGN(const ScratchDirectory scratch, ScratchDirectory::create("isocost-emulate"));
  ISOCOST_TRY(write_shards(scratch.path(), loads.size()));
  ISOCOST_ASSIGN(const NodeOptions options, node_options(arguments, layout, scratch.path()));
  ISOCOST_ASSIGN(Emulation emulation, run(options, trainers, signals.token()));
  if (arguments.disturbance.weighs_correction()) {
    ISOCOST_ASSIGN(emulation.report.uncorrected_s,
                   uncorrected_step_s(options, trainers, signals.token()));
  }
  if (!arguments.svg.empty()) {
    ISOCOST_TRY(replace_file(arguments.svg, emulation.picture));
  }
  print_emulation(arguments, trainers, emulation.report, emulation.metrics);
  return kDone;
}

constexpr const char* kEmulateFooter =
    "The node serves small samples from a temporary directory; their costs come from the traces\n"
    "or the data profile.\n"
    "Examples:\n"
    "  isocost-lab emulate --trace documents.csv,videos.csv --dp 8 --pp 4 --steps 50\n"
    "  isocost-lab emulate --trace documents.csv --dp 16 --pp 2 --balance in-order --json\n"
    "  isocost-lab emulate --trace documents.csv --layout layout.json --global-batch-size 512\n"
    "  isocost-lab emulate --trace documents.csv --dp 8 --pp 2 --steps 200 --noise 0.03 \\\n"
    "      --slow-rank 3:1.2@50-150\n"
    "  isocost-lab emulate --trace documents.csv --steps 1000 --virtual-clock \\\n"
    "      --anomalies 0.05:1.5 --measuring-cost 0.01";

}  // namespace

void add_emulate(CLI::App& app, Run& run) {
  add_command<EmulateArguments>(
      app, run,
      {.name = "emulate",
       .description = "Serve emulated trainers: node, sockets and plans are real, forward and "
                      "backward passes wait for their predicted seconds.",
       .footer = kEmulateFooter},
      emulate);
}

}  // namespace isocost::cli
