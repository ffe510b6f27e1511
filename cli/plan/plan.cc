#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "balancer/layout/layout_search.h"
#include "base/executor/executor.h"
#include "base/fingerprint.h"
#include "base/output_file.h"
#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/number_range.h"
#include "cli/common/overwrite.h"
#include "cli/common/signal_stop.h"
#include "cli/plan/commands.h"
#include "cli/plan/plan_checkpoint.h"
#include "cli/plan/plan_output.h"
#include "cli/plan/training_options.h"
#include "cli/trace/sampled_batches.h"
#include "cli/trace/trace_options.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

constexpr std::uint64_t kFreshSeed = 0x9E3779B9;

struct PlanArguments {
  TraceOptions source;
  TrainingOptions training;
  std::string interconnect;
  std::string gpu_memory = "80GiB";
  std::string schedule = "1f1b";
  std::string output = "layout.json";
  std::string resume;
  std::size_t global_batch_size = 512;
  std::size_t batches = 4;
  std::size_t fresh = 0;
  std::size_t workers = 0;
  LayoutSearchOptions search;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);
};

std::uint64_t fingerprint_of(const TraceMix& mix) {
  Fingerprint hash;
  for (const auto& trace : mix.traces) {
    hash.add(trace.size());
    for (const Load& load : trace) {
      for (const ModuleLoad& module : load.modules) {
        hash.add(module.sequences);
        hash.add(module.units);
        hash.add(module.units_squared);
      }
    }
  }
  return hash.value();
}

// Returns everything that a score depends on: scores in a checkpoint hold for equal inputs.
std::string describe_inputs(const PlanArguments& arguments, const JobModel& job,
                            const TraceMix& mix) {
  nlohmann::ordered_json inputs = {{"version", ISOCOST_VERSION},
                                   {"samples", fingerprint_of(mix)},
                                   {"weights", mix.weights},
                                   {"profile", job.profile.to_json()},
                                   {"interconnect", arguments.interconnect},
                                   {"gpu_memory", job.cluster.gpu_memory},
                                   {"schedule", arguments.schedule},
                                   {"freeze", arguments.training.frozen},
                                   {"adapters", arguments.training.adapters},
                                   {"recompute", arguments.training.recompute},
                                   {"replicate_optimizer", arguments.training.replicated_optimizer},
                                   {"shard_weights", arguments.training.shard_weights},
                                   {"gpus", arguments.search.gpus},
                                   {"global_batch_size", arguments.global_batch_size},
                                   {"batches", arguments.batches},
                                   {"evaluations", arguments.search.evaluations},
                                   {"seed", arguments.search.seed}};
  return inputs.dump();
}

// Scores the best layout, the best that treats both modules alike, and the mean-shape rule's on
// batches that the search has not seen.
Status score_on_fresh_batches(const PlanArguments& arguments, const JobModel& job,
                              const TraceMix& mix, PlanReport& report) {
  if (arguments.fresh == 0) return {};
  const SampledBatches batches =
      draw_batches(mix, job.profile, arguments.fresh, arguments.global_batch_size,
                   arguments.search.seed ^ kFreshSeed);
  const auto add = [&](const char* name, const LayoutScore& score) -> Status {
    ISOCOST_ASSIGN(auto again, score_layout(job, score.layout, batches, arguments.search,
                                            arguments.search.evaluations));
    report.fresh.emplace_back(name, std::move(again));
    return {};
  };
  ISOCOST_TRY(add("best", report.found.best.front()));
  if (report.found.alike) ISOCOST_TRY(add("alike", *report.found.alike));
  if (report.found.mean_shape) ISOCOST_TRY(add("mean_shape", *report.found.mean_shape));
  return {};
}

Result<JobModel> job_of(PlanArguments& arguments) {
  ISOCOST_ASSIGN(JobModel job, arguments.source.job());
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(arguments.interconnect));
  ISOCOST_ASSIGN(job.cluster.gpu_memory, parse_bytes(arguments.gpu_memory));
  if (job.cluster.gpu_memory <= 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "--gpu-memory is '" + arguments.gpu_memory + "'; it must be above 0");
  }
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule || *schedule == Schedule::kInterleaved1F1B) {
    return Error(ErrorCode::kInvalidArgument,
                 "--schedule is '" + arguments.schedule + "'; plan supports gpipe, 1f1b and zb-h1");
  }
  arguments.search.schedule = *schedule;
  ISOCOST_TRY(arguments.training.apply(arguments.search));
  return job;
}

// Adds what a node and a trainer need besides the degrees: the layers of each stage, the machines,
// and the limit of activations.
Result<Layout> complete_layout(Layout layout, const JobModel& job, const SampleCost& mean,
                               const PlanArguments& arguments) {
  ISOCOST_ASSIGN(const PipelineModel model, make_pipeline(job, layout, mean));
  layout.activation_caps =
      activation_caps(job, state_memory(job, layout, model), arguments.search.usable_memory);
  layout.layers = layer_cut(job, layout, mean);
  layout.interconnect = arguments.interconnect;
  return layout;
}

Status write_best(const PlanArguments& arguments, const JobModel& job, const SampleCost& mean,
                  const PlanReport& report) {
  ISOCOST_ASSIGN(const Layout best,
                 complete_layout(report.found.best.front().layout, job, mean, arguments));
  return replace_file(arguments.output, best.to_json());
}

// The samples are those of a given model then, but not their seconds.
void warn_of_another_model(const TraceOptions& source) {
  if (source.profiled.recipe.find("model") == nullptr || !source.profile.empty()) return;
  std::fputs(
      "isocost: without --profile, samples take the seconds of the built-in model profile "
      "(SigLIP-so400m and Qwen2.5-7B on an A100): 'isocost model profile DIR' measures yours\n",
      stderr);
}

Result<int> plan(PlanArguments arguments) {
  ISOCOST_TRY(check_output_file("--output", arguments.output));
  ISOCOST_TRY(check_output_file("--resume", arguments.resume));
  ISOCOST_TRY(check_new_file("--output", arguments.output, arguments.force));
  ISOCOST_ASSIGN(const JobModel job, job_of(arguments));
  const SignalStop signals;
  ISOCOST_ASSIGN(const TraceMix mix, arguments.source.read(signals.token()));
  warn_of_another_model(arguments.source);
  const SampledBatches batches = draw_batches(mix, job.profile, arguments.batches,
                                              arguments.global_batch_size, arguments.search.seed);
  ISOCOST_ASSIGN(PlanCheckpoint checkpoint,
                 PlanCheckpoint::open(arguments.resume, describe_inputs(arguments, job, mix)));
  const auto executor = make_executor(arguments.workers);
  LayoutSearchContext context;
  context.executor = executor.get();
  context.stop = signals.token();
  context.recall = [&checkpoint](std::string_view key) { return checkpoint.recall(key); };
  context.record = [&checkpoint](const LayoutRecord& record) { checkpoint.write(record); };
  context.progress = progress_bar();
  const auto started = std::chrono::steady_clock::now();
  PlanReport report{.found = {}, .wanted = arguments.search.keep};
  ISOCOST_ASSIGN(report.found, search_layouts(job, batches, arguments.search, context));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  report.search_s = seconds.count();
  ISOCOST_TRY(score_on_fresh_batches(arguments, job, mix, report));
  finish_progress();
  if (!checkpoint.kept_all()) {
    std::fprintf(stderr, "isocost: cannot write %s; some scores were not kept\n",
                 arguments.resume.c_str());
  }
  ISOCOST_TRY(write_best(arguments, job, mean(batches.front()), report));
  (arguments.json ? print_plan_json : print_plan_text)(report, job);
  if (!arguments.json) {
    std::printf("simulated; the search took %.1f s; the best layout is written to %s\n",
                report.search_s, arguments.output.c_str());
  }
  return kDone;
}

void PlanArguments::add_to(CLI::App& command) {
  add_count(command, "--gpus", search.gpus, 1, 16384, "GPUs of the job");
  command.add_option("--gpu-memory", gpu_memory, "Memory of each GPU")
      ->type_name("SIZE")
      ->capture_default_str();
  source.add_to(command);
  command
      .add_option("--interconnect", interconnect,
                  "All or some of node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8")
      ->type_name("LIST");
  add_count(command, "--global-batch-size", global_batch_size, 1, 1'000'000,
            "Samples per optimizer step");
  command.add_option("--schedule", schedule, "gpipe, 1f1b or zb-h1")->capture_default_str();
  training.add_to(command);
  add_count(command, "--batches", batches, 1, 1000, "Global batches on which layouts are scored");
  add_count(command, "--fresh", fresh, 0, 1000,
            "Score the best layouts also on this many batches that the search has not seen");
  add_count(command, "--top", search.keep, 1, 100, "Layouts to list");
  add_count(command, "--evaluations", search.evaluations, 0, 10'000'000,
            "Search budget: simulator evaluations for each plan of the last round");
  add_seed(command, search.seed);
  add_count(command, "--workers", workers, 0, 1024, "Worker threads; 0: one per core");
  command
      .add_option("--resume", resume, "Keep scores in FILE, and continue from those that it holds")
      ->type_name("FILE");
  command.add_option("--output", output, "Layout to write")
      ->type_name("FILE")
      ->capture_default_str();
  add_force(command, force);
  command.add_flag("--json", json, "Print JSON instead of text");
}

constexpr const char* kPlanFooter =
    "A layout's score is the simulated seconds per step over sampled global batches, which are\n"
    "balanced as at run time. The best layout is compared with the best one that treats both\n"
    "modules alike, and with the choice of the published rule for mean shapes.\n"
    "Examples:\n"
    "  isocost plan --gpus 64 --trace documents.csv,videos.csv --global-batch-size 512\n"
    "  isocost plan --gpus 64 --data data/shards --profile profile.json\n"
    "  isocost data profile data/shards --json > data.json\n"
    "  isocost plan --gpus 64 --data-profile data.json --profile profile.json\n"
    "  isocost plan --gpus 8 --trace documents.csv --freeze encoder --recompute auto\n"
    "  isocost plan --gpus 1024 --trace documents.csv --resume search.jsonl\n"
    "docs/layout.md describes the file, docs/simulator.md what is simulated.";

}  // namespace

void add_plan(CLI::App& app, Run& run) {
  add_command<PlanArguments>(
      app, run,
      {.name = "plan",
       .description = "Choose tensor, pipeline and data degrees of encoder and LLM.",
       .footer = kPlanFooter},
      plan);
}

}  // namespace isocost::cli
