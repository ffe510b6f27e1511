#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "base/counted.h"
#include "cli/common/exit_status.h"
#include "cli/common/overwrite.h"
#include "cli/lab/commands.h"
#include "cli/lab/simulate_arguments.h"
#include "cli/lab/simulate_layout.h"
#include "cli/lab/simulate_output.h"
#include "cli/lab/simulate_steps.h"
#include "cli/trace/sampled_batches.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

// Returns a slowdown per LLM stage [replicas × stages] from one per replica.
Result<std::vector<double>> slowdowns_of(const std::string& text, const ModuleStages& llm) {
  std::vector<double> slowdowns;
  if (text.empty()) return slowdowns;
  const std::vector<std::string> parts = split_list(text);
  if (parts.size() != llm.replicas) {
    return Error(ErrorCode::kInvalidArgument, "--slowdowns has " + counted(parts.size(), "number") +
                                                  "; the LLM has " +
                                                  counted(llm.replicas, "replica"));
  }
  for (const std::string& part : parts) {
    double slowdown = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), slowdown);
    if (failure != std::errc() || end != part.data() + part.size()) {
      return Error(ErrorCode::kInvalidArgument, "--slowdowns: '" + part + "' is not a number");
    }
    slowdowns.insert(slowdowns.end(), llm.stages, slowdown);
  }
  return slowdowns;
}

Status check_size(const SimulateArguments& arguments) {
  constexpr std::size_t kMostSamples = 50'000'000;
  if (arguments.steps <= kMostSamples / arguments.global_batch_size) return {};
  return Error(ErrorCode::kInvalidArgument,
               "--steps x --global-batch-size exceeds 50 million samples; simulate fewer steps");
}

Status check_decouple(const SimulateArguments& arguments, const Layout& layout,
                      const PipelineModel& model) {
  if (!arguments.decouple) return {};
  if (layout.coupled) {
    return Error(ErrorCode::kInvalidArgument,
                 "--decouple: layout " + arguments.layout + " is 'coupled'");
  }
  if (model.encoder.stages > 0) return {};
  return Error(ErrorCode::kInvalidArgument,
               "--decouple: encoder and LLM share one pipeline here; give a layout whose encoder "
               "has ranks of its own");
}

Result<PipelineModel> model_of(const SimulateArguments& arguments, const JobModel& job,
                               const Layout& layout, const SampleCost& mean) {
  auto made = make_pipeline(job, layout, mean);
  if (!made) {
    Error error = std::move(made).error();
    return arguments.layout.empty() ? error : std::move(error).with_context(arguments.layout);
  }
  PipelineModel model = *std::move(made);
  ISOCOST_ASSIGN(model.llm.slowdowns, slowdowns_of(arguments.slowdowns, model.llm));
  ISOCOST_TRY(model.validate());
  ISOCOST_TRY(check_decouple(arguments, layout, model));
  return model;
}

Result<int> simulate_command(SimulateArguments arguments) {
  ISOCOST_TRY(check_new_file("--svg", arguments.svg, arguments.force));
  ISOCOST_TRY(check_size(arguments));
  ISOCOST_ASSIGN(const std::vector<PipelinePolicy> policies, parse_policies(arguments.balance));
  if (!arguments.activation_memory.empty()) {
    ISOCOST_ASSIGN(const std::int64_t cap, parse_bytes(arguments.activation_memory));
    arguments.order.caps = {.encoder_bytes = cap, .llm_bytes = cap};
  }
  ISOCOST_ASSIGN(const TraceMix mix, arguments.source.read());
  ISOCOST_ASSIGN(JobModel job, arguments.source.job());
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(arguments.interconnect));
  const SampledBatches batches =
      draw_batches(mix, job.profile, arguments.steps, arguments.global_batch_size, arguments.seed);
  const SampleCost mean = isocost::mean(batches.front());
  ISOCOST_ASSIGN(const Layout layout, layout_of(arguments, mean, job));
  ISOCOST_ASSIGN(job.cluster.gpu_memory, parse_bytes(arguments.gpu_memory));
  for (const std::string& warning : layout.warnings()) {
    std::fprintf(stderr, "note: %s\n", warning.c_str());
  }
  ISOCOST_ASSIGN(const PipelineModel model, model_of(arguments, job, layout, mean));
  ISOCOST_ASSIGN(const SimulatedPolicies results,
                 simulate_steps(arguments, policies, job, layout, model, batches));
  if (arguments.json) {
    print_simulation_json(arguments, layout, job, results);
  } else {
    print_simulation_text(arguments, layout, job, results);
  }
  ISOCOST_TRY(write_simulation_svg(arguments.svg, results.policies));
  return kDone;
}

constexpr const char* kSimulateFooter =
    "Samples are drawn from the traces by weight. Every policy plans the same global batches:\n"
    "in-order deals samples as they are drawn; tokens is LPT by LLM tokens; lpt is vector LPT by\n"
    "predicted seconds, with microbatches in random order; cost balances predicted seconds, then\n"
    "searches partition and order.\n"
    "Examples:\n"
    "  isocost-lab simulate --trace documents.csv,videos.csv --dp 8 --pp 8 --microbatches 16\n"
    "  isocost-lab simulate --trace documents.csv,videos.csv --weights 2,1 --schedule zb-h1\n"
    "  isocost-lab simulate --trace documents.csv --layout layout.json --steps 20 --json\n"
    "  isocost data profile data/shards --json > data.json\n"
    "  isocost-lab simulate --data-profile data.json --svg step.svg\n"
    "docs/simulator.md says what is simulated and what is left out.";

}  // namespace

void add_simulate(CLI::App& app, Run& run) {
  add_command<SimulateArguments>(
      app, run,
      {.name = "simulate",
       .description = "Simulate pipelines over traces, policy by policy.",
       .footer = kSimulateFooter},
      simulate_command);
}

}  // namespace isocost::cli
