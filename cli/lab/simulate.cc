#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/order.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/trace_options.h"
#include "costmodel/sample_cost.h"
#include "loader/config/node_config.h"
#include "loader/config/option_table.h"
#include "loader/report/pipeline_svg.h"

namespace isocost::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct SimulateArguments {
  TraceOptions source;
  std::string interconnect;
  std::string layout;
  std::size_t global_batch_size = 512;
  std::size_t data = 8;
  std::size_t pipeline = 8;
  std::size_t encoder_stages = 0;
  std::size_t tensor = 0;
  std::size_t chunks = 0;
  std::size_t microbatches = 0;
  std::string schedule = "1f1b";
  std::size_t steps = 10;
  std::uint64_t seed = 0;
  std::string policies = "blind,lpt,isocost";
  std::size_t lookahead = 1;
  bool decouple = false;
  std::string slowdowns;
  OrderOptions order;
  std::string gpu_memory = "80GiB";
  std::string activation_memory;
  std::string svg;
  bool json = false;
};

/// Encoder and LLM planned apart, beside isocost's coupled plans of the same steps.
struct DecoupledResult {
  double step_s = 0;      // mean
  double coupled_s = 0;   // mean
  std::size_t apart = 0;  // steps that are shorter for it
};

/// Means over the steps of one policy.
struct PolicyResult {
  PipelinePolicy policy = PipelinePolicy::kInOrder;
  double step_s = 0;
  double idle_share = 0;
  double microbatch_max_over_mean = 0;
  double rank_max_over_mean = 0;
  double plan_s = 0;
  double bound_s = 0;              // below which no plan of these batches is
  double peak_activation_gib = 0;  // the largest
  double memory_gib = 0;           // the largest, with the state of the module's fullest stage
  bool fits = true;                // the cap on activations was kept in every step
  PipelinePicture picture;         // of the first step
};

SampleCost mean_of(const std::vector<SampleCost>& loads) {
  SampleCost sum;
  for (const SampleCost& load : loads) sum += load;
  const auto n = static_cast<double>(loads.size());
  return {sum.encoder_s / n, sum.llm_s / n, sum.encoder_units / n, sum.llm_units / n};
}

std::vector<SampleCost> priced(const JobModel& job, const std::vector<Load>& loads) {
  const SamplePrices prices(job.profile);
  std::vector<SampleCost> out;
  out.reserve(loads.size());
  for (const Load& load : loads) out.push_back(prices.of(load));
  return out;
}

std::vector<SampleCost> spread(const JobModel& job, const Layout& layout,
                               const std::vector<SampleCost>& samples) {
  std::vector<SampleCost> out;
  out.reserve(samples.size());
  for (const SampleCost& sample : samples) out.push_back(spread_load(job, layout, sample));
  return out;
}

// Of pp stages so many go to the encoder that the busiest stage of the mean sample is fastest.
std::size_t fair_encoder_stages(const SimulateArguments& arguments, const SampleCost& mean) {
  std::size_t best = 1;
  double least = 0;
  for (std::size_t stages = 1; stages < arguments.pipeline; ++stages) {
    const double busiest = std::max(mean.encoder_s / static_cast<double>(stages),
                                    mean.llm_s / static_cast<double>(arguments.pipeline - stages));
    if (stages == 1 || busiest < least) {
      best = stages;
      least = busiest;
    }
  }
  return best;
}

// The largest of 1, 2 and 4 that the heads of all modules can be divided by.
std::size_t usual_tensor_degree(const JobModel& job) {
  std::int64_t heads = std::gcd(job.llm.heads, job.encoder.heads);
  if (job.second_encoder) heads = std::gcd(heads, job.second_encoder->heads);
  return static_cast<std::size_t>(std::gcd(heads, std::int64_t{4}));
}

// 16, or as many more as make whole groups of stages that interleave.
std::size_t usual_microbatches(const Layout& layout) {
  constexpr std::size_t kUsual = 16;
  const std::size_t group = layout.chunks > 1 ? layout.llm.pipeline : 1;
  return (kUsual + group - 1) / group * group;
}

Result<Layout> layout_of_flags(const SimulateArguments& arguments, const SampleCost& mean,
                               const JobModel& job) {
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule) {
    return Error(
        ErrorCode::kInvalidArgument,
        "--schedule is '" + arguments.schedule + "'; there are gpipe, 1f1b, interleaved and zb-h1");
  }
  Layout layout;
  layout.schedule = *schedule;
  layout.chunks = arguments.chunks > 0                      ? arguments.chunks
                  : *schedule == Schedule::kInterleaved1F1B ? 2
                                                            : 1;
  const std::size_t tensor = arguments.tensor > 0 ? arguments.tensor : usual_tensor_degree(job);
  const auto with_microbatches = [&arguments](Layout made) {
    made.microbatches =
        arguments.microbatches > 0 ? arguments.microbatches : usual_microbatches(made);
    return made;
  };
  if (arguments.pipeline == 1) {
    if (arguments.encoder_stages > 0) {
      return Error(ErrorCode::kInvalidArgument,
                   "--encoder-pp: with --pp 1 both modules share the one stage; leave it out");
    }
    layout.encoder_place = EncoderPlace::kLlmRanks;
    layout.llm = {tensor, 1, arguments.data};
    layout.encoder = layout.llm;
    return with_microbatches(layout);
  }
  const std::size_t stages = arguments.encoder_stages > 0 ? arguments.encoder_stages
                                                          : fair_encoder_stages(arguments, mean);
  if (stages >= arguments.pipeline) {
    return Error(ErrorCode::kInvalidArgument, "--encoder-pp is " + std::to_string(stages) +
                                                  "; it must be below --pp (" +
                                                  std::to_string(arguments.pipeline) + ")");
  }
  layout.encoder = {tensor, stages, arguments.data};
  layout.llm = {tensor, arguments.pipeline - stages, arguments.data};
  return with_microbatches(layout);
}

// Largest over mean of the microbatches' LLM or encoder seconds, whichever is further off.
double spread_of(const std::vector<SampleCost>& loads) {
  double largest_encoder = 0;
  double largest_llm = 0;
  SampleCost sum;
  for (const SampleCost& load : loads) {
    largest_encoder = std::max(largest_encoder, load.encoder_s);
    largest_llm = std::max(largest_llm, load.llm_s);
    sum += load;
  }
  const auto n = static_cast<double>(loads.size());
  const double encoder = sum.encoder_s > 0 ? largest_encoder * n / sum.encoder_s : 1;
  const double llm = sum.llm_s > 0 ? largest_llm * n / sum.llm_s : 1;
  return std::max(encoder, llm);
}

std::vector<SampleCost> per_replica(const PipelineModel& model,
                                    const std::vector<SampleCost>& loads) {
  std::vector<SampleCost> out(model.llm.replicas);
  for (std::size_t i = 0; i < loads.size(); ++i) out[i / model.microbatches] += loads[i];
  return out;
}

bool keeps(const PipelineReport& report, const ActivationCaps& caps) {
  return std::all_of(report.stages.begin(), report.stages.end(), [&caps](const auto& stage) {
    const std::int64_t cap = stage.encoder ? caps.encoder_bytes : caps.llm_bytes;
    return cap == 0 || stage.peak_activation_bytes <= cap;
  });
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

// Of the fullest rank: what its stage keeps, beside the state of its module's fullest stage.
double memory_gib(const PipelineReport& report, const RankMemory& state) {
  double most = 0;
  for (const StageReport& stage : report.stages) {
    most = std::max(most, gib(stage.peak_activation_bytes +
                              (stage.encoder ? state.encoder_state : state.llm_state)));
  }
  return most;
}

Status run_step(const PipelineModel& model, const RankMemory& state,
                const std::vector<SampleCost>& samples, const SimulateArguments& arguments,
                std::size_t step, PolicyResult& result) {
  OrderOptions options = arguments.order;
  options.seed = arguments.seed + step;
  const auto started = Clock::now();
  ISOCOST_ASSIGN(const PipelinePlan plan, plan_pipeline(model, samples, result.policy, options));
  const std::chrono::duration<double> seconds = Clock::now() - started;
  const std::vector<SampleCost> loads = microbatch_loads(samples, plan.bins);
  ISOCOST_ASSIGN(PipelineReport report, simulate(make_step(model, loads)));
  const auto n = static_cast<double>(arguments.steps);
  result.step_s += report.step_s / n;
  result.idle_share += report.idle_share / n;
  result.microbatch_max_over_mean += spread_of(loads) / n;
  result.rank_max_over_mean += spread_of(per_replica(model, loads)) / n;
  result.plan_s += seconds.count() / n;
  result.peak_activation_gib =
      std::max(result.peak_activation_gib, gib(report.peak_activation_bytes()));
  result.memory_gib = std::max(result.memory_gib, memory_gib(report, state));
  result.bound_s += pipeline_bound(model, samples) / n;
  result.fits = result.fits && keeps(report, options.caps);
  if (step == 0) result.picture.report = std::move(report);
  return {};
}

Status run_decoupled(const PipelineModel& model, const std::vector<SampleCost>& samples,
                     const SimulateArguments& arguments, std::size_t step,
                     DecoupledResult& result) {
  OrderOptions options = arguments.order;
  options.seed = arguments.seed + step;
  ISOCOST_ASSIGN(const DecoupledPlan plan,
                 plan_decoupled(model, samples, PipelinePolicy::kCost, options));
  const auto n = static_cast<double>(arguments.steps);
  result.step_s += plan.step_s / n;
  result.coupled_s += plan.coupled_s / n;
  result.apart += plan.decoupled ? 1 : 0;
  return {};
}

// Batches as isocost takes them: those of a window composed together, the last window perhaps of
// fewer.
Result<std::vector<std::vector<SampleCost>>> look_ahead(
    const PipelineModel& model, const std::vector<std::vector<SampleCost>>& batches,
    std::size_t lookahead) {
  if (lookahead == 1) return batches;
  std::vector<std::vector<SampleCost>> out;
  for (std::size_t first = 0; first < batches.size(); first += lookahead) {
    std::vector<SampleCost> window;
    std::vector<std::size_t> sizes;
    for (std::size_t b = first; b < std::min(first + lookahead, batches.size()); ++b) {
      window.insert(window.end(), batches[b].begin(), batches[b].end());
      sizes.push_back(batches[b].size());
    }
    ISOCOST_ASSIGN(const Composition composition, compose_pipeline_batches(model, window, sizes));
    for (const auto& items : composition.batches) {
      auto& batch = out.emplace_back();
      for (const std::uint32_t item : items) batch.push_back(window[item]);
    }
  }
  return out;
}

// [replicas × stages], all stages of a replica as slow as the text says of it.
Result<std::vector<double>> slowdowns_of(const std::string& text, const ModuleStages& llm) {
  std::vector<double> slowdowns;
  if (text.empty()) return slowdowns;
  const std::vector<std::string> parts = split_list(text);
  if (parts.size() != llm.replicas) {
    return Error(ErrorCode::kInvalidArgument, "--slowdowns has " + std::to_string(parts.size()) +
                                                  " numbers, the LLM " +
                                                  std::to_string(llm.replicas) + " replicas");
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

Result<std::vector<PolicyResult>> chosen_policies(const std::string& text) {
  std::vector<PolicyResult> results;
  for (const std::string& name : split_list(text)) {
    const auto policy = policy_from_name(name);
    if (!policy) {
      return Error(ErrorCode::kInvalidArgument,
                   "--policy '" + name + "' is unknown; there are blind, lpt and isocost");
    }
    results.emplace_back().policy = *policy;
  }
  return results;
}

nlohmann::ordered_json to_json(const PolicyResult& result, double gpu_gib) {
  return {{"step_s", result.step_s},
          {"idle_share", result.idle_share},
          {"max_over_mean", result.microbatch_max_over_mean},
          {"rank_max_over_mean", result.rank_max_over_mean},
          {"bound_s", result.bound_s},
          {"over_bound", result.bound_s > 0 ? result.step_s / result.bound_s : 1.0},
          {"peak_activation_gib", result.peak_activation_gib},
          {"memory_gib", result.memory_gib},
          {"fits", result.fits},
          {"fits_gpu", result.memory_gib <= gpu_gib},
          {"plan_s", result.plan_s}};
}

void print_json(const SimulateArguments& arguments, const Layout& layout, const JobModel& job,
                const std::vector<PolicyResult>& results, const DecoupledResult& decoupled) {
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["profile"] = job.profile.source;
  json["layout"] = nlohmann::ordered_json::parse(layout.to_json());
  json["global_batch_size"] = arguments.global_batch_size;
  json["steps"] = arguments.steps;
  json["seed"] = arguments.seed;
  json["lookahead"] = arguments.lookahead;
  json["gpu_memory_gib"] = gib(job.cluster.gpu_memory);
  for (const PolicyResult& result : results) {
    json["policies"][std::string(policy_name(result.policy))] =
        to_json(result, gib(job.cluster.gpu_memory));
  }
  if (arguments.decouple) {
    json["decoupled"] = {{"step_s", decoupled.step_s},
                         {"coupled_s", decoupled.coupled_s},
                         {"steps_apart", decoupled.apart}};
  }
  std::printf("%s\n", json.dump(2).c_str());
}

void print_decoupled(const SimulateArguments& arguments, const DecoupledResult& decoupled) {
  if (!arguments.decouple) return;
  std::printf("decoupled: %.4f s a step, %.3fx coupled; %zu of %zu steps are planned apart\n",
              decoupled.step_s, decoupled.coupled_s / decoupled.step_s, decoupled.apart,
              arguments.steps);
}

void print_table(const SimulateArguments& arguments, const Layout& layout, const JobModel& job,
                 const std::vector<PolicyResult>& results) {
  std::printf("simulated: %s; %zu samples a step, %zu steps; profile %s\n",
              layout.to_string().c_str(), arguments.global_batch_size, arguments.steps,
              job.profile.source.c_str());
  std::printf("bound %.4f s a step (the busiest stage's work, evenly divided)\n",
              results.front().bound_s);
  std::printf("%-8s %10s %8s %8s %12s %10s %10s %9s\n", "policy", "step s", "slowdown", "idle",
              "microbatch", "rank", "peak", "plan");
  std::printf("%-8s %10s %8s %8s %12s %10s %10s %9s\n", "", "", "", "share", "max/mean", "max/mean",
              "act. GiB", "ms");
  for (const PolicyResult& result : results) {
    std::printf("%-8s %10.4f %7.3fx %7.2f%% %12.3f %10.3f %10.1f %9.1f\n",
                std::string(policy_name(result.policy)).c_str(), result.step_s,
                results.front().step_s / result.step_s, 100 * result.idle_share,
                result.microbatch_max_over_mean, result.rank_max_over_mean,
                result.peak_activation_gib, 1e3 * result.plan_s);
  }
}

// What a reader of the table would miss.
void print_notes(const JobModel& job, const std::vector<PolicyResult>& results) {
  const double gpu_gib = gib(job.cluster.gpu_memory);
  for (const PolicyResult& result : results) {
    const std::string name(policy_name(result.policy));
    if (!result.fits) {
      std::printf("note: %s exceeds the cap on activations; no plan was found that keeps it\n",
                  name.c_str());
    }
    if (result.memory_gib > gpu_gib) {
      std::printf(
          "note: %s takes %.1f GiB of a GPU of %.1f (state and activations): this job runs only "
          "with a larger tensor degree, or more and smaller microbatches\n",
          name.c_str(), result.memory_gib, gpu_gib);
    }
  }
}

Status write_svg(const std::string& path, std::vector<PolicyResult>& results) {
  if (path.empty()) return {};
  std::vector<PipelinePicture> pictures;
  for (PolicyResult& result : results) {
    char title[128];
    std::snprintf(title, sizeof title, "%s: %.3f s, %.1f %% idle (first step, the slowest replica)",
                  std::string(policy_name(result.policy)).c_str(), result.picture.report.step_s,
                  100 * result.picture.report.idle_share);
    pictures.push_back({title, std::move(result.picture.report)});
  }
  return replace_file(path, draw_pipelines(pictures));
}

// What a layout's file says of machines and memory holds where no flag says otherwise.
Result<Layout> layout_of(SimulateArguments& arguments, const SampleCost& mean, JobModel& job) {
  if (arguments.layout.empty()) return layout_of_flags(arguments, mean, job);
  ISOCOST_ASSIGN(Layout layout, of_given(Layout::load(arguments.layout)));
  if (arguments.interconnect.empty()) {
    ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(layout.interconnect));
  }
  if (!arguments.order.caps.any()) arguments.order.caps = layout.activation_caps;
  return layout;
}

Status check_decouple(const SimulateArguments& arguments, const Layout& layout,
                      const PipelineModel& model) {
  if (arguments.decouple && layout.coupled) {
    return Error(ErrorCode::kInvalidArgument,
                 "--decouple: layout " + arguments.layout + " is 'coupled'");
  }
  if (arguments.decouple && model.encoder.stages == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "--decouple: encoder and LLM share one pipeline here; give a layout whose encoder "
                 "has ranks of its own");
  }
  return {};
}

Result<int> simulate_command(SimulateArguments arguments) {
  ISOCOST_TRY(check_output_file("--svg", arguments.svg));
  constexpr std::size_t kMostSamples = 50'000'000;
  if (arguments.steps > kMostSamples / arguments.global_batch_size) {
    return Error(ErrorCode::kInvalidArgument,
                 "--steps x --global-batch: more than 50 million samples; simulate fewer steps");
  }
  if (!arguments.activation_memory.empty()) {
    ISOCOST_ASSIGN(const std::int64_t cap, parse_bytes(arguments.activation_memory));
    arguments.order.caps = {.encoder_bytes = cap, .llm_bytes = cap};
  }
  ISOCOST_ASSIGN(const TraceMix mix, arguments.source.read());
  ISOCOST_ASSIGN(JobModel job, arguments.source.job());
  ISOCOST_ASSIGN(const std::int64_t gpu_memory, parse_bytes(arguments.gpu_memory));
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(arguments.interconnect));
  ISOCOST_ASSIGN(std::vector<PolicyResult> results, chosen_policies(arguments.policies));
  Random random(arguments.seed);
  std::vector<std::vector<SampleCost>> batches;
  batches.reserve(arguments.steps);
  for (std::size_t step = 0; step < arguments.steps; ++step) {
    batches.push_back(priced(job, mix.draw(arguments.global_batch_size, random)));
  }
  const SampleCost mean = mean_of(batches.front());
  ISOCOST_ASSIGN(const Layout layout, layout_of(arguments, mean, job));
  for (const std::string& warning : layout.warnings()) {
    std::fprintf(stderr, "note: %s\n", warning.c_str());
  }
  job.cluster.gpu_memory = gpu_memory;
  auto made = make_pipeline(job, layout, mean);
  if (!made) {
    Error error = std::move(made).error();
    return arguments.layout.empty() ? error : std::move(error).with_context(arguments.layout);
  }
  PipelineModel model = *std::move(made);
  ISOCOST_ASSIGN(model.llm.slowdowns, slowdowns_of(arguments.slowdowns, model.llm));
  ISOCOST_TRY(model.validate());
  ISOCOST_TRY(check_decouple(arguments, layout, model));
  DecoupledResult decoupled;
  const RankMemory state = state_memory(job, layout, model);
  const ProgressSink progress = progress_bar();
  for (auto& batch : batches) batch = spread(job, layout, batch);
  ISOCOST_ASSIGN(const auto composed, look_ahead(model, batches, arguments.lookahead));
  for (std::size_t step = 0; step < arguments.steps; ++step) {
    for (PolicyResult& result : results) {
      const bool looks_ahead = result.policy == PipelinePolicy::kCost;
      const auto& samples = looks_ahead ? composed[step] : batches[step];
      ISOCOST_TRY(run_step(model, state, samples, arguments, step, result));
    }
    if (arguments.decouple) {
      ISOCOST_TRY(run_decoupled(model, composed[step], arguments, step, decoupled));
    }
    progress(step + 1, arguments.steps, "simulating steps");
  }
  finish_progress();
  if (arguments.json) {
    print_json(arguments, layout, job, results, decoupled);
  } else {
    print_table(arguments, layout, job, results);
    print_decoupled(arguments, decoupled);
    print_notes(job, results);
  }
  ISOCOST_TRY(write_svg(arguments.svg, results));
  return 0;
}

void add_options(CLI::App& command, SimulateArguments& arguments) {
  arguments.source.add_to(command);
  command
      .add_option("--layout", arguments.layout,
                  "Layout file of 'isocost plan'; replaces the degrees below")
      ->type_name("FILE");
  const auto degree = [&command](const char* name, std::size_t& value, const char* text,
                                 std::size_t least = 1) {
    command.add_option(name, value, text)
        ->check(CLI::Range(least, std::size_t{1'000'000}))
        ->capture_default_str();
  };
  degree("--global-batch", arguments.global_batch_size, "Samples a step");
  degree("--dp", arguments.data, "Data-parallel replicas");
  degree("--pp", arguments.pipeline, "Pipeline stages, encoder and LLM together");
  degree("--encoder-pp", arguments.encoder_stages,
         "Stages of these for the encoder; 0: as the first step's mean sample asks", 0);
  degree("--tp", arguments.tensor,
         "Tensor-parallel degree of both; 0: the largest of 1, 2, 4 that divides their heads", 0);
  degree("--chunks", arguments.chunks, "Model chunks a stage; 0: 2 if interleaved, else 1", 0);
  degree("--microbatches", arguments.microbatches,
         "Per replica and step; 0: 16, interleaved the next multiple of the LLM's stages", 0);
  degree("--steps", arguments.steps, "Global batches to simulate");
  command.add_option("--schedule", arguments.schedule, "gpipe, 1f1b, interleaved or zb-h1")
      ->capture_default_str();
  command
      .add_option("--interconnect", arguments.interconnect,
                  "node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8, or parts of it")
      ->type_name("LIST");
  command.add_option("--seed", arguments.seed, "Of the samples drawn")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--policy", arguments.policies, "Of blind, lpt and isocost")
      ->capture_default_str();
  command
      .add_option("--slowdowns", arguments.slowdowns,
                  "What the seconds of each LLM replica are multiplied by; isocost knows them")
      ->type_name("X[,X...]");
  degree("--lookahead", arguments.lookahead,
         "So many global batches are composed together, by isocost alone");
  command
      .add_option("--search", arguments.order.evaluations,
                  "Looks at the simulator that isocost spends on a step")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{100'000'000}))
      ->capture_default_str();
  command
      .add_option("--gpu-memory", arguments.gpu_memory,
                  "Of a GPU: where state and activations take more, a note says so")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--activation-memory", arguments.activation_memory,
                  "Cap on a stage's activations in flight, kept by isocost; empty: none")
      ->type_name("SIZE");
  CLI::Option* const layout = command.get_option("--layout");
  for (const char* degree_of_it :
       {"--dp", "--pp", "--encoder-pp", "--tp", "--chunks", "--microbatches", "--schedule"}) {
    layout->excludes(command.get_option(degree_of_it));
  }
  command.add_option("--svg", arguments.svg, "Draw the first step of every policy")
      ->type_name("FILE");
  command.add_flag("--decouple", arguments.decouple,
                   "Also plan encoder and LLM apart, each in slots of its own");
  command.add_flag("--json", arguments.json, "Print JSON instead of text");
}

}  // namespace

void add_simulate(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("simulate", "Simulate pipelines over traces: blind, greedy, isocost.");
  auto arguments = std::make_shared<SimulateArguments>();
  add_options(*command, *arguments);
  command->footer(
      "Samples are drawn from the traces by weight; every policy plans the same global batches.\n"
      "blind deals samples in order, lpt is vector greedy with microbatches in random order.\n"
      "Examples:\n"
      "  isocost simulate --trace documents.csv,videos.csv --dp 8 --pp 8 --microbatches 16\n"
      "  isocost simulate --trace a.csv,b.csv --weights 2,1 --schedule zb-h1 --svg step.svg\n"
      "  isocost simulate --trace a.csv --layout layout.json --steps 20 --json\n"
      "  isocost simulate --data D.json --dp 8 --pp 8    # D.json: of isocost profile-data --json\n"
      "What is modelled and what is left out: docs/simulator.md.");
  command->callback([arguments, &run] {
    run = [arguments] { return exit_status(simulate_command(*arguments)); };
  });
}

}  // namespace isocost::cli
