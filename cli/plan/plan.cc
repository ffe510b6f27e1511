#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "base/executor/executor.h"
#include "base/fingerprint.h"
#include "base/output_file.h"
#include "base/units.h"
#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/number_range.h"
#include "cli/common/overwrite.h"
#include "cli/common/savings_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/plan/commands.h"
#include "cli/plan/emission.h"
#include "cli/plan/model_measurement.h"
#include "cli/plan/plan_checkpoint.h"
#include "cli/plan/plan_html.h"
#include "cli/plan/plan_output.h"
#include "cli/plan/plan_savings.h"
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
  std::string emit;
  std::string output = "layout.json";
  std::string resume;
  std::size_t global_batch_size = 512;
  std::size_t batches = 4;
  std::size_t fresh = 0;
  std::size_t workers = 0;
  LayoutSearchOptions search;
  std::string html;
  SavingsFlags savings;
  ModelMeasurement measurement;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);
};

// Measures the parts of a command's work.
class PartTimes {
 public:
  void end(const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    parts_.emplace_back(what, std::chrono::duration<double>(now - start_).count());
    start_ = now;
  }
  const std::vector<std::pair<std::string, double>>& parts() const { return parts_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> parts_;
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
                                   {"emit", framework_name(arguments.search.framework)},
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
  auto memory = parse_bytes(arguments.gpu_memory);
  if (!memory) return std::move(memory).error().with_context("--gpu-memory");
  job.cluster.gpu_memory = *memory;
  if (job.cluster.gpu_memory < kMiB) {
    return Error(ErrorCode::kInvalidArgument,
                 "--gpu-memory is '" + arguments.gpu_memory +
                     "', which is no memory of a GPU: give its unit, as in 80GiB");
  }
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule || *schedule == Schedule::kInterleaved1F1B) {
    return Error(ErrorCode::kInvalidArgument,
                 "--schedule is '" + arguments.schedule + "'; plan supports gpipe, 1f1b and zb-h1");
  }
  arguments.search.schedule = *schedule;
  ISOCOST_TRY(arguments.training.check_measured(job.profile));
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

// Writes the best layout, and what makes the framework of --emit follow it.
Status write_best(const PlanArguments& arguments, const Emission& emission, const JobModel& job,
                  const SampleCost& mean, const PlanReport& report) {
  ISOCOST_ASSIGN(const Layout best,
                 complete_layout(report.found.best.front().layout, job, mean, arguments));
  ISOCOST_TRY(replace_file(arguments.output, best.to_json()));
  if (emission.framework == Framework::kAny) return {};
  ISOCOST_ASSIGN(const auto file, emitted_file(emission, arguments.output));
  return replace_file(file, emitted_text(emission, best, arguments.output));
}

// Returns the directory of --model if its model is to be measured; else nothing.
std::optional<std::string> unmeasured_model(const TraceOptions& source) {
  const Setting* const model = source.profiled.recipe.find("model");
  if (model == nullptr || !source.profile.empty()) return std::nullopt;
  return model->value;
}

// Refuses a model whose layers have experts, before it is measured.
Status check_dense(const TraceOptions& source) {
  const Setting* const model = source.profiled.recipe.find("model");
  if (model == nullptr) return {};
  const std::filesystem::path file = std::filesystem::path(model->value) / "config.json";
  std::ifstream stream(file);
  const auto config = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return {};  // reading the recipe says why
  for (const auto& module : {config.value("text_config", nlohmann::json::object()), config}) {
    if (!module.is_object()) continue;
    for (const char* const key : {"num_local_experts", "num_experts"}) {
      const auto experts = module.find(key);
      if (experts == module.end() || !experts->is_number_integer() || *experts < 1) continue;
      return experts_are_not_planned(file.string(), experts->get<std::int64_t>());
    }
  }
  return {};
}

// Checks that the model can be measured, and that no profile is lost.
Status check_measurement(const PlanArguments& arguments) {
  const auto model = unmeasured_model(arguments.source);
  if (!model) {
    if (arguments.measurement.has_budget()) {
      return Error(ErrorCode::kInvalidArgument,
                   "--budget says how long --model is measured without --profile: leave it out, or "
                   "give --data and --model");
    }
    if (arguments.measurement.device.empty()) return {};
    return Error(ErrorCode::kInvalidArgument,
                 "--device says where --model is measured without --profile: leave it out, or give "
                 "--data and --model");
  }
  ISOCOST_TRY(arguments.measurement.check(*model));
  const std::filesystem::path file = measured_profile(arguments.output);
  if (arguments.force || !std::filesystem::exists(file)) return {};
  return Error(ErrorCode::kAlreadyExists, file.string() + " exists: --profile " + file.string() +
                                              " plans by it, and --force measures the model again");
}

using NamedFiles = std::vector<std::pair<std::string, std::filesystem::path>>;

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (a.empty() || b.empty() || a == "/dev/null") return false;
  std::error_code failed;
  return std::filesystem::weakly_canonical(a, failed) ==
         std::filesystem::weakly_canonical(b, failed);
}

// Checks that no file is written twice, or over what is read.
Status check_distinct(const NamedFiles& written, const NamedFiles& read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    NamedFiles others(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(i));
    others.insert(others.end(), read.begin(), read.end());
    for (const auto& [name, file] : others) {
      if (!same_file(written[i].second, file)) continue;
      return Error(ErrorCode::kInvalidArgument, written[i].first + " and " + name +
                                                    " name one file, " + file.string() +
                                                    ": give each its own");
    }
  }
  return {};
}

// Returns the files that are read, with the options that name them.
NamedFiles files_read(const TraceOptions& source) {
  NamedFiles files = {{"--profile", source.profile}, {"--data-profile", source.data_profile}};
  std::istringstream traces(source.traces);
  for (std::string trace; std::getline(traces, trace, ',');) files.emplace_back("--trace", trace);
  for (const std::string& word : source.data.words) files.emplace_back("--data", word);
  return files;
}

// Checks what the work would end in, before it starts. Returns the file that --emit writes.
Result<std::filesystem::path> check_files(const PlanArguments& arguments,
                                          const Emission& emission) {
  ISOCOST_TRY(check_output_file("--output", arguments.output));
  ISOCOST_TRY(check_output_file("--resume", arguments.resume));
  ISOCOST_TRY(check_new_file("--output", arguments.output, arguments.force));
  ISOCOST_TRY(check_new_file("--html", arguments.html, arguments.force));
  ISOCOST_ASSIGN(auto emitted, emitted_file(emission, arguments.output));
  ISOCOST_TRY(check_new_file("--output", emitted, arguments.force));
  std::filesystem::path measured;
  if (unmeasured_model(arguments.source)) measured = measured_profile(arguments.output);
  ISOCOST_TRY(check_distinct({{"--output", arguments.output},
                              {"--html", arguments.html},
                              {"--resume", arguments.resume},
                              {"--emit", emitted},
                              {"the model profile beside --output", measured}},
                             files_read(arguments.source)));
  return emitted;
}

Result<LayoutSearchResult> search(const PlanArguments& arguments, const JobModel& job,
                                  const TraceMix& mix, const SampledBatches& batches,
                                  const std::stop_token& stop) {
  ISOCOST_ASSIGN(PlanCheckpoint checkpoint,
                 PlanCheckpoint::open(arguments.resume, describe_inputs(arguments, job, mix)));
  const auto executor = make_executor(arguments.workers);
  LayoutSearchContext context;
  context.executor = executor.get();
  context.stop = stop;
  context.recall = [&checkpoint](std::string_view key) { return checkpoint.recall(key); };
  context.record = [&checkpoint](const LayoutRecord& record) { checkpoint.write(record); };
  context.progress = progress_bar();
  ISOCOST_ASSIGN(auto found, search_layouts(job, batches, arguments.search, context));
  finish_progress();
  if (!checkpoint.kept_all()) {
    std::fprintf(stderr, "isocost: cannot write %s; some scores were not kept\n",
                 arguments.resume.c_str());
  }
  return found;
}

void print_report(const PlanArguments& arguments, const PlanReport& report, const JobModel& job) {
  (arguments.json ? print_plan_json : print_plan_text)(report, job);
  if (arguments.json) return;
  std::string took;
  for (const auto& [what, seconds] : report.took) {
    took += (took.empty() ? "" : ", ") + what + fmt::format(" {:.1f} s", seconds);
  }
  std::printf("simulated; it took: %s; the best layout is written to %s\n", took.c_str(),
              arguments.output.c_str());
}

// Measures the model, and gives the job its profile.
Status measure_model(PlanArguments& arguments, JobModel& job, const std::stop_token& stop) {
  const std::filesystem::path measured = measured_profile(arguments.output);
  ISOCOST_TRY(arguments.measurement.run(arguments.source.profiled.recipe, measured, stop));
  arguments.source.profile = measured.string();
  ISOCOST_ASSIGN(JobModel of_profile, arguments.source.job());
  ISOCOST_TRY(arguments.training.check_measured(of_profile.profile));
  of_profile.cluster = job.cluster;
  job = std::move(of_profile);
  return {};
}

Result<int> plan(PlanArguments arguments) {
  ISOCOST_ASSIGN(const Emission emission, parse_emission(arguments.emit));
  ISOCOST_ASSIGN(const auto emitted, check_files(arguments, emission));
  if (arguments.savings.measure_decoding && arguments.source.data.words.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "--measure-decoding serves the data set: name it with --data");
  }
  ISOCOST_ASSIGN(const auto price, arguments.savings.price_per_gpu_hour());
  ISOCOST_TRY(check_dense(arguments.source));
  ISOCOST_TRY(check_measurement(arguments));
  ISOCOST_ASSIGN(JobModel job, job_of(arguments));
  ISOCOST_TRY(restrict_search(emission, arguments.search));
  const SignalStop signals;
  PartTimes times;
  ISOCOST_ASSIGN(const TraceMix mix,
                 arguments.source.read(signals.token(), arguments.savings.measure_decoding));
  times.end(arguments.source.data.words.empty() ? "samples" : "data profile");
  if (unmeasured_model(arguments.source)) {
    ISOCOST_TRY(measure_model(arguments, job, signals.token()));
    times.end("model profile");
  }
  const SampledBatches batches = draw_batches(mix, job.profile, arguments.batches,
                                              arguments.global_batch_size, arguments.search.seed);
  PlanReport report{.found = {}, .framework = emission.framework, .wanted = arguments.search.keep};
  ISOCOST_ASSIGN(report.found, search(arguments, job, mix, batches, signals.token()));
  const LayoutScore& best = report.found.best.front();
  ISOCOST_ASSIGN(report.savings, savings_of(job, best, batches, arguments.search, price));
  report.needs = needs_of(mix, best, static_cast<std::int64_t>(arguments.global_batch_size));
  ISOCOST_TRY(score_on_fresh_batches(arguments, job, mix, report));
  times.end("search");
  report.took = times.parts();
  ISOCOST_TRY(write_best(arguments, emission, job, mean(batches.front()), report));
  if (!arguments.html.empty()) {
    ISOCOST_TRY(replace_file(arguments.html, plan_html(report, job)));
  }
  print_report(arguments, report, job);
  if (!emitted.empty() && !arguments.json) {
    std::printf("%s\n", emitted_hint(emission, emitted).c_str());
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
  command
      .add_option("--emit", emit,
                  "Choose among the layouts that a framework runs, and write its file beside the "
                  "layout: fsdp2 (PyTorch) or megatron (Megatron-LM), with a version if you like: "
                  "megatron@0.19")
      ->type_name("FRAMEWORK[@VERSION]");
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
  command.add_option("--html", html, "Write an HTML report")->type_name("FILE");
  savings.add_to(command);
  measurement.add_to(command);
  add_force(command, force);
  command.add_flag("--json", json, "Print JSON instead of text");
}

constexpr const char* kPlanFooter =
    "A layout's score is the simulated seconds per step over sampled global batches, which are\n"
    "balanced as at run time. The best layout is compared with the best one that treats both\n"
    "modules alike, and with the choice of the published rule for mean shapes.\n"
    "Examples:\n"
    "  isocost plan --gpus 64 --trace documents.csv,videos.csv --global-batch-size 512\n"
    "  isocost plan --gpus 64 --data data/shards --profile profile.json --html plan.html\n"
    "  isocost plan --model DIR --data data/shards --gpus 64 --gpu-memory 80GiB\n"
    "  isocost data profile data/shards --json > data.json\n"
    "  isocost plan --gpus 64 --data-profile data.json --profile profile.json\n"
    "  isocost plan --gpus 8 --trace documents.csv --freeze encoder --recompute auto\n"
    "  isocost plan --gpus 16 --trace documents.csv --emit fsdp2\n"
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
