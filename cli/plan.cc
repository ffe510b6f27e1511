#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "base/executor.h"
#include "base/fingerprint.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/trace_options.h"
#include "costmodel/sample_cost.h"
#include "loader/config/node_config.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

constexpr std::uint64_t kFreshSeed = 0x9E3779B9;

struct PlanArguments {
  TraceOptions source;
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
  bool json = false;
};

using Batches = std::vector<std::vector<SampleCost>>;

Batches draw_batches(const PlanArguments& arguments, const JobModel& job, const TraceMix& mix,
                     std::size_t count, std::uint64_t seed) {
  const SamplePrices prices(job.profile);
  Random random(seed);
  Batches batches(count);
  for (auto& batch : batches) {
    for (const Load& load : mix.draw(arguments.global_batch_size, random)) {
      batch.push_back(prices.of(load));
    }
  }
  return batches;
}

nlohmann::ordered_json to_json(const LayoutScore& score) {
  return {{"layout", nlohmann::ordered_json::parse(score.layout.to_json())},
          {"step_s", score.step_s},
          {"idle_share", score.idle_share},
          {"work_s", score.work_s},
          {"reduce_s", score.reduce_s},
          {"memory_bytes", score.memory_bytes},
          {"fits", score.fits}};
}

Result<LayoutScore> score_from_json(const nlohmann::json& json) {
  LayoutScore score;
  ISOCOST_ASSIGN(score.layout, Layout::parse(json.at("layout").dump()));
  json.at("step_s").get_to(score.step_s);
  json.at("idle_share").get_to(score.idle_share);
  json.at("work_s").get_to(score.work_s);
  json.at("reduce_s").get_to(score.reduce_s);
  json.at("memory_bytes").get_to(score.memory_bytes);
  json.at("fits").get_to(score.fits);
  return score;
}

/// Scores kept in a file, a line of JSON each, below a line that says what they are of. A last line
/// that was torn is left out.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& path, const std::string& inputs) {
    Checkpoint checkpoint;
    if (path.empty()) return checkpoint;
    if (std::filesystem::exists(path)) ISOCOST_TRY(of_given(checkpoint.read(path, inputs)));
    // In one piece, so that scores survive whatever happens: a torn last line goes.
    std::string text = nlohmann::json{{"inputs", inputs}}.dump() + "\n";
    for (const auto& [key, score] : checkpoint.known_) text += line_of({key, score});
    ISOCOST_TRY(replace_file(path, text));
    checkpoint.file_.open(path, std::ios::app);
    if (!checkpoint.file_) return Error(ErrorCode::kIo, "cannot write " + path);
    return checkpoint;
  }

  std::optional<LayoutScore> recall(std::string_view key) const {
    const auto found = known_.find(std::string(key));
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  void write(const LayoutRecord& record) {
    if (!file_.is_open()) return;
    file_ << line_of(record) << std::flush;
  }

  // False where scores could not be kept: a full disk, say.
  bool kept_all() const { return !file_.is_open() || file_.good(); }

  std::size_t known() const { return known_.size(); }

 private:
  static std::string line_of(const LayoutRecord& record) {
    const nlohmann::ordered_json line = {{"key", record.key}, {"score", to_json(record.score)}};
    return line.dump() + "\n";
  }

  Status read(const std::string& path, const std::string& inputs) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line)) return {};  // empty: nothing was scored yet
    const auto head = nlohmann::json::parse(line, nullptr, false);
    if (!head.is_object() || !head.contains("inputs") || head["inputs"] != inputs) {
      return Error(ErrorCode::kInvalidArgument,
                   path +
                       " is no checkpoint of this search (other inputs); remove it or name "
                       "another file with --resume");
    }
    for (std::size_t number = 2; std::getline(file, line); ++number) {
      if (file.eof()) break;  // torn: no end of line
      const auto json = nlohmann::json::parse(line, nullptr, false);
      const Error corrupt(ErrorCode::kCorrupt, path + ": line " + std::to_string(number) +
                                                   " is no score; remove that line");
      try {
        const auto score = score_from_json(json.at("score"));
        if (!score) return corrupt;
        known_[json.at("key").get<std::string>()] = *score;
      } catch (const nlohmann::json::exception&) {
        return corrupt;
      }
    }
    return {};
  }

  std::map<std::string, LayoutScore> known_;
  std::ofstream file_;
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

// Everything that a score depends on.
std::string describe_inputs(const PlanArguments& arguments, const JobModel& job,
                            const TraceMix& mix) {
  nlohmann::ordered_json inputs = {{"version", ISOCOST_VERSION},
                                   {"samples", fingerprint_of(mix)},
                                   {"weights", mix.weights},
                                   {"profile", job.profile.to_json()},
                                   {"interconnect", arguments.interconnect},
                                   {"gpu_memory", job.cluster.gpu_memory},
                                   {"schedule", arguments.schedule},
                                   {"gpus", arguments.search.gpus},
                                   {"global_batch_size", arguments.global_batch_size},
                                   {"batches", arguments.batches},
                                   {"evaluations", arguments.search.evaluations},
                                   {"seed", arguments.search.seed}};
  return inputs.dump();
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

// What layouts are held against: memory_bytes and "free" are of the same limit.
double usable_gib(const JobModel& job) {
  return LayoutSearchOptions{}.usable_memory * gib(job.cluster.gpu_memory);
}

void print_score(const char* label, const LayoutScore& score, const JobModel& job) {
  std::printf("%-10s %9.4f %7.2f%% %9.1f  %s%s\n", label, score.step_s, 100 * score.idle_share,
              usable_gib(job) - gib(score.memory_bytes), score.layout.to_string().c_str(),
              score.fits ? "" : "  (does not fit the memory)");
}

std::size_t not_looked_at(const LayoutSearchResult& found) {
  const std::size_t known = found.over_memory + found.over_bound + found.simulated;
  return found.enumerated - std::min(found.enumerated, known);
}

void print_table(const LayoutSearchResult& found, const JobModel& job, std::size_t top,
                 const std::vector<std::pair<std::string, LayoutScore>>& fresh) {
  std::printf(
      "%zu layouts: %zu over the memory (%.1f GiB of a GPU are usable), %zu over the bound, "
      "%zu simulated, %zu less promising ones not\n",
      found.enumerated, found.over_memory, usable_gib(job), found.over_bound, found.simulated,
      not_looked_at(found));
  std::printf("%-10s %9s %8s %9s  %s\n", "", "step s", "idle", "free GiB",
              "layout (tensor x pipeline x data)");
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    print_score(std::to_string(i + 1).c_str(), found.best[i], job);
    if (i > 0) std::printf("%11s%s\n", "", why_slower(found.best[0], found.best[i]).c_str());
  }
  if (found.best.size() < top) {
    std::printf("%11sno more layouts than these %zu were found to fit\n", "", found.best.size());
  }
  if (found.alike) {
    print_score("alike", *found.alike, job);
    std::printf("%11s%.3fx the best; %s\n", "", found.alike->step_s / found.best[0].step_s,
                why_slower(found.best[0], *found.alike).c_str());
  }
  if (found.mean_shape) {
    print_score("mean-shape", *found.mean_shape, job);
    std::printf("%11s%.3fx the best; %s\n", "", found.mean_shape->step_s / found.best[0].step_s,
                why_slower(found.best[0], *found.mean_shape).c_str());
  } else {
    std::printf("mean-shape: the published rule finds no layout that fits\n");
  }
  for (const auto& [name, score] : fresh) {
    std::printf("on fresh batches, %s: %.4f s\n", name.c_str(), score.step_s);
  }
}

nlohmann::ordered_json result_json(const LayoutSearchResult& found, const JobModel& job,
                                   double seconds,
                                   const std::vector<std::pair<std::string, LayoutScore>>& fresh) {
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["enumerated"] = found.enumerated;
  json["over_memory"] = found.over_memory;
  json["usable_memory_gib"] = usable_gib(job);
  json["over_bound"] = found.over_bound;
  json["looked_at"] = found.simulated;
  json["not_looked_at"] = not_looked_at(found);
  json["search_seconds"] = seconds;
  for (const LayoutScore& score : found.best) {
    nlohmann::ordered_json entry = to_json(score);
    entry["why_slower"] = why_slower(found.best[0], score);
    json["best"].push_back(std::move(entry));
  }
  json["alike"] = found.alike ? to_json(*found.alike) : nlohmann::ordered_json(nullptr);
  json["mean_shape"] =
      found.mean_shape ? to_json(*found.mean_shape) : nlohmann::ordered_json(nullptr);
  for (const auto& [name, score] : fresh) json["fresh"][name] = score.step_s;
  return json;
}

// The chosen layout, the mean-shape rule's and the best that treats modules alike on batches that
// the search has not seen.
Result<std::vector<std::pair<std::string, LayoutScore>>> score_fresh(
    const PlanArguments& arguments, const JobModel& job, const TraceMix& mix,
    const LayoutSearchResult& found) {
  std::vector<std::pair<std::string, LayoutScore>> fresh;
  if (arguments.fresh == 0) return fresh;
  const Batches batches =
      draw_batches(arguments, job, mix, arguments.fresh, arguments.search.seed ^ kFreshSeed);
  const auto add = [&](const char* name, const LayoutScore& score) -> Status {
    ISOCOST_ASSIGN(auto again, score_layout(job, score.layout, batches, arguments.search,
                                            arguments.search.evaluations));
    fresh.emplace_back(name, std::move(again));
    return {};
  };
  ISOCOST_TRY(add("best", found.best.front()));
  if (found.alike) ISOCOST_TRY(add("alike", *found.alike));
  if (found.mean_shape) ISOCOST_TRY(add("mean_shape", *found.mean_shape));
  return fresh;
}

Result<JobModel> job_of(PlanArguments& arguments) {
  ISOCOST_ASSIGN(JobModel job, arguments.source.job());
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(arguments.interconnect));
  ISOCOST_ASSIGN(job.cluster.gpu_memory, parse_bytes(arguments.gpu_memory));
  if (job.cluster.gpu_memory <= 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "--gpu-memory is '" + arguments.gpu_memory + "'; must be more than 0");
  }
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule || *schedule == Schedule::kInterleaved1F1B) {
    return Error(ErrorCode::kInvalidArgument,
                 "--schedule is '" + arguments.schedule + "'; plan knows gpipe, 1f1b and zb-h1");
  }
  arguments.search.schedule = *schedule;
  return job;
}

// With what a node and a trainer keep to: the layers of each stage, the machines, and what
// activations may take.
Result<Layout> as_served(Layout layout, const JobModel& job, const Batches& batches,
                         const PlanArguments& arguments) {
  SampleCost mean;
  for (const SampleCost& sample : batches.front()) mean += sample;
  const auto n = static_cast<double>(batches.front().size());
  mean = {mean.encoder_s / n, mean.llm_s / n, mean.encoder_units / n, mean.llm_units / n};
  ISOCOST_ASSIGN(const PipelineModel model, make_pipeline(job, layout, mean));
  layout.activation_caps =
      activation_caps(job, state_memory(job, layout, model), arguments.search.usable_memory);
  layout.layers = layer_cut(job, layout, mean);
  layout.interconnect = arguments.interconnect;
  return layout;
}

Result<int> plan_command(PlanArguments arguments) {
  ISOCOST_TRY(check_output_file("--output", arguments.output));
  ISOCOST_TRY(check_output_file("--resume", arguments.resume));
  const SignalStop signals;
  ISOCOST_ASSIGN(const TraceMix mix, arguments.source.read());
  ISOCOST_ASSIGN(const JobModel job, job_of(arguments));
  const Batches batches =
      draw_batches(arguments, job, mix, arguments.batches, arguments.search.seed);
  ISOCOST_ASSIGN(Checkpoint checkpoint,
                 Checkpoint::open(arguments.resume, describe_inputs(arguments, job, mix)));
  const auto executor = make_executor(arguments.workers);
  LayoutSearchContext context;
  context.executor = executor.get();
  context.stop = signals.token();
  context.recall = [&checkpoint](std::string_view key) { return checkpoint.recall(key); };
  context.record = [&checkpoint](const LayoutRecord& record) { checkpoint.write(record); };
  context.progress = progress_bar();
  const auto started = std::chrono::steady_clock::now();
  ISOCOST_ASSIGN(const LayoutSearchResult found,
                 search_layouts(job, batches, arguments.search, context));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  ISOCOST_ASSIGN(const auto fresh, score_fresh(arguments, job, mix, found));
  finish_progress();
  if (!checkpoint.kept_all()) {
    std::fprintf(stderr, "isocost: %s: cannot write; not all scores were kept there\n",
                 arguments.resume.c_str());
  }
  if (arguments.json) {
    std::printf("%s\n", result_json(found, job, seconds.count(), fresh).dump(2).c_str());
  } else {
    print_table(found, job, arguments.search.keep, fresh);
    std::printf("simulated, %.1f s of search; the best goes to %s\n", seconds.count(),
                arguments.output.c_str());
  }
  ISOCOST_ASSIGN(const Layout best, as_served(found.best.front().layout, job, batches, arguments));
  ISOCOST_TRY(replace_file(arguments.output, best.to_json()));
  return 0;
}

void add_options(CLI::App& command, PlanArguments& arguments) {
  LayoutSearchOptions& search = arguments.search;
  const auto count = [&command](const char* name, std::size_t& value, const char* text,
                                std::size_t least, std::size_t most) {
    command.add_option(name, value, text)->check(CLI::Range(least, most))->capture_default_str();
  };
  count("--gpus", search.gpus, "GPUs of the job", 1, 16384);
  command.add_option("--gpu-memory", arguments.gpu_memory, "Of each")
      ->type_name("SIZE")
      ->capture_default_str();
  arguments.source.add_to(command);
  command
      .add_option("--interconnect", arguments.interconnect,
                  "node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8, or parts of it")
      ->type_name("LIST");
  count("--global-batch", arguments.global_batch_size, "Samples a step", 1, 1'000'000);
  command.add_option("--schedule", arguments.schedule, "gpipe, 1f1b or zb-h1")
      ->capture_default_str();
  count("--batches", arguments.batches, "Global batches that layouts are scored on", 1, 1000);
  count("--fresh", arguments.fresh, "Score the answer on so many more batches", 0, 1000);
  count("--top", search.keep, "Layouts to list", 1, 100);
  command.add_option("--search", search.evaluations, "Looks at the simulator for each final plan")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{10'000'000}))
      ->capture_default_str();
  command.add_option("--seed", search.seed, "Of the samples drawn")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  count("--workers", arguments.workers, "Threads; 0: one per core", 0, 1024);
  command
      .add_option("--resume", arguments.resume,
                  "Keep scores in FILE, and go on from it where it is there")
      ->type_name("FILE");
  command.add_option("--output", arguments.output, "Where the layout goes")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_flag("--json", arguments.json, "Print JSON instead of text");
}

}  // namespace

void add_plan(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("plan", "Choose tensor, pipeline and data degrees of encoder and LLM.");
  auto arguments = std::make_shared<PlanArguments>();
  add_options(*command, *arguments);
  command->footer(
      "Every layout is scored by the simulated step over sampled global batches, each balanced as\n"
      "at run time, and compared with the best layout that treats both modules alike and with the\n"
      "choice of the published rule for mean shapes.\n"
      "Examples:\n"
      "  isocost plan --gpus 64 --trace documents.csv,videos.csv --global-batch 512\n"
      "  isocost profile-data data/shards --json > D.json\n"
      "  isocost plan --gpus 64 --data D.json --profile P.json --global-batch 512\n"
      "  isocost plan --gpus 1024 --trace a.csv --resume search.jsonl --output layout.json\n"
      "The file's schema: docs/layout.md. What is modelled: docs/simulator.md.");
  command->callback(
      [arguments, &run] { run = [arguments] { return exit_status(plan_command(*arguments)); }; });
}

}  // namespace isocost::cli
