// Layouts, plans and simulated steps of bench/paper/paper.py: `paper_plans TASK` reads a request as
// JSON from its standard input and prints an answer. TASK is
//   loads    shapes to a data profile, by the recipes
//   layouts  the layouts of every rule, for a model, data and a number of GPUs
//   costs    what the samples of batches cost on one GPU, for a scheduler outside
//   steps    simulated steps of one layout under several schedulers
//   correction  steps of a layout with anomalies, with and without correction by the cost model
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "base/executor/executor.h"
#include "bench/paper/correction_study.h"
#include "bench/paper/layout_steps.h"
#include "bench/paper/shape_loads.h"
#include "bench/paper/uniform_layouts.h"
#include "loader/report/data_profile.h"

namespace isocost::paper {
namespace {

using Json = nlohmann::ordered_json;

/// Seeds of the batches on which layouts are chosen, and of those on which they are compared.
constexpr std::uint64_t kFreshSeed = 0x9E3779B9;
constexpr std::uint64_t kSeedStep = 1000;

/// The parts that all requests but `loads` share.
struct Job {
  JobModel model;
  std::vector<Load> loads;
  std::size_t gpus = 64;
  std::size_t size = 512;
  std::uint64_t seed = 0;
  std::int64_t evaluations = 8'000;

  static Result<Job> create(const nlohmann::json& request) {
    Job job;
    ISOCOST_ASSIGN(CostProfile profile, CostProfile::parse(request.at("profile").dump()));
    ISOCOST_ASSIGN(job.model, JobModel::create(std::move(profile)));
    ISOCOST_ASSIGN(job.model.cluster,
                   Cluster::parse_interconnect(request.value("interconnect", std::string())));
    job.model.cluster.gpu_memory = request.at("gpu_memory");
    ISOCOST_ASSIGN(job.loads, load_profiled_loads(request.at("data_profile").get<std::string>()));
    job.gpus = request.at("gpus");
    job.size = request.at("size");
    job.seed = request.value("seed", std::uint64_t{0});
    job.evaluations = request.value("evaluations", std::int64_t{8'000});
    return job;
  }
  Batches batches(std::size_t count) const { return draw(loads, model.profile, count, size, seed); }
  /// Returns one batch for each seed, which the search has not seen.
  Batches fresh(std::size_t seeds) const {
    Batches batches;
    for (std::size_t i = 0; i < seeds; ++i) {
      batches.push_back(
          draw(loads, model.profile, 1, size, (seed ^ kFreshSeed) + i * kSeedStep).front());
    }
    return batches;
  }
};

Json layout_json(const std::optional<Layout>& layout) {
  if (!layout) return nullptr;
  Json json = Json::parse(layout->to_json());
  return {{"text", layout->to_string()}, {"layout", std::move(json)}};
}

// Returns the layout as `isocost plan` writes it: with the layers of each stage, and the caps.
Result<Json> layout_file(const JobModel& job, Layout layout, const SampleCost& mean) {
  ISOCOST_ASSIGN(const PipelineModel model, make_pipeline(job, layout, mean));
  layout.activation_caps = activation_caps(job, state_memory(job, layout, model), kUsableMemory);
  layout.layers = layer_cut(job, layout, mean);
  return Json::parse(layout.to_json());
}

// Returns the CPU seconds of all threads, because other programs may run on the same cores.
double cpu_seconds_of(const std::function<void()>& work) {
  const std::clock_t started = std::clock();
  work();
  return static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;
}

Result<Json> layouts(const nlohmann::json& request) {
  ISOCOST_ASSIGN(const Job job, Job::create(request));
  const Batches batches = job.batches(request.value("batches", std::size_t{4}));
  const auto executor = make_executor(request.value("workers", std::size_t{0}));
  LayoutSearchContext context;
  context.executor = executor.get();
  const LayoutSearchOptions options{
      .gpus = job.gpus, .shard_weights = true, .evaluations = job.evaluations, .seed = job.seed};
  Json answer;
  Status failed;
  std::optional<Layout> ours;
  answer["ours_s"] = cpu_seconds_of([&] {
    const auto found = search_layouts(job.model, batches, options, context);
    if (found) ours = found->best.front().layout;
    answer["ours"] = layout_json(ours);
    if (!found) answer["ours_error"] = std::string(found.error().message());
  });
  answer["published_s"] = cpu_seconds_of([&] {
    const auto chosen = mean_shape_layout(job.model, batches, options, context);
    if (!chosen) failed = chosen.error();
    answer["published"] = layout_json(chosen ? *chosen : std::nullopt);
  });
  ISOCOST_TRY(failed);
  answer["uniform_s"] = cpu_seconds_of([&] {
    const auto uniform = uniform_layouts(job.model, job.gpus, batches);
    if (!uniform) {
      failed = uniform.error();
      return;
    }
    answer["rule"] = layout_json(uniform->rule);
    answer["tuned"] = layout_json(uniform->tuned);
    answer["data_parallel"] = layout_json(uniform->data_parallel);
    answer["sharded"] = layout_json(uniform->sharded);
    answer["uniform_tried"] = uniform->tried;
  });
  ISOCOST_TRY(failed);
  const SampleCost mean = mean_of(batches);
  if (ours) {
    ISOCOST_ASSIGN(answer["ours_file"], layout_file(job.model, *ours, mean));
  }
  answer["mean"] = {{"encoder_s", mean.encoder_s},
                    {"llm_s", mean.llm_s},
                    {"encoder_units", mean.encoder_units},
                    {"llm_units", mean.llm_units}};
  return answer;
}

Result<Json> costs(const nlohmann::json& request) {
  ISOCOST_ASSIGN(const Job job, Job::create(request));
  auto batches = Json::array();
  for (const auto& batch : job.fresh(request.at("seeds"))) {
    auto rows = Json::array();
    for (const SampleCost& sample : batch) rows.push_back({sample.encoder_s, sample.llm_s});
    batches.push_back(std::move(rows));
  }
  return Json{{"batches", std::move(batches)}};
}

/// Steps of one scheduler over all seeds.
struct Series {
  std::vector<double> seconds;
  std::vector<double> idle;
  std::vector<double> plan;
  double memory_gib = 0;
  bool fits = true;

  void add(const Step& step, bool step_fits) {
    seconds.push_back(step.seconds);
    idle.push_back(step.idle_fraction);
    plan.push_back(step.plan_s);
    memory_gib = std::max(memory_gib, step.memory_gib);
    fits = fits && step_fits;
  }
  Json json() const {
    return {{"step_s", seconds},
            {"idle", idle},
            {"plan_s", plan},
            {"memory_gib", memory_gib},
            {"fits", fits}};
  }
};

Result<Step> step_of(const std::string& scheduler, const LayoutSteps& steps,
                     const std::vector<SampleCost>& batch, std::size_t i, const Job& job,
                     const nlohmann::json& plans) {
  if (scheduler == "random") return steps.random(batch);
  if (scheduler == "ours") return steps.ours(batch, job.evaluations, job.seed + i);
  return steps.given(batch, plans.at(scheduler).at(i).get<MicrobatchBins>());
}

Result<Json> steps(const nlohmann::json& request) {
  ISOCOST_ASSIGN(const Job job, Job::create(request));
  ISOCOST_ASSIGN(const Layout layout, Layout::parse(request.at("layout").dump()));
  const Batches batches = job.fresh(request.at("seeds"));
  const SampleCost mean = mean_of(job.batches(request.value("batches", std::size_t{4})));
  ISOCOST_ASSIGN(const LayoutSteps steps, LayoutSteps::create(job.model, layout, mean));
  const nlohmann::json plans = request.value("plans", nlohmann::json::object());
  std::map<std::string, Series> found;
  std::vector<double> bounds;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    bounds.push_back(steps.bound(batches[i]));
    for (const std::string scheduler : request.at("schedulers")) {
      ISOCOST_ASSIGN(const Step step, step_of(scheduler, steps, batches[i], i, job, plans));
      found[scheduler].add(step, steps.fits(step));
    }
  }
  Json answer{{"bound_s", bounds}};
  for (const auto& [name, series] : found) answer["schedulers"][name] = series.json();
  return answer;
}

Result<Json> correction(const nlohmann::json& request) {
  ISOCOST_ASSIGN(const Job job, Job::create(request));
  ISOCOST_ASSIGN(const Layout layout, Layout::parse(request.at("layout").dump()));
  auto cells = Json::array();
  for (const double share : request.at("shares")) {
    for (const double factor : request.at("factors")) {
      for (const double overhead : request.at("overheads")) {
        const CorrectionRun run{.size = job.size, .seed = job.seed, .overhead = overhead};
        ISOCOST_ASSIGN(const CorrectionResult result,
                       simulate_correction(job.model, layout, job.loads,
                                           {.share = share, .factor = factor}, run));
        cells.push_back({{"share", share},
                         {"factor", factor},
                         {"overhead", overhead},
                         {"corrected_s", result.corrected_s},
                         {"uncorrected_s", result.uncorrected_s},
                         {"gain", result.gain},
                         {"open", result.open}});
      }
    }
  }
  return Json{{"cells", std::move(cells)}};
}

int run(const std::string& task) {
  const std::string text{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  const std::map<std::string, Result<Json> (*)(const nlohmann::json&)> tasks = {
      {"loads", data_profile_of_shapes},
      {"layouts", layouts},
      {"costs", costs},
      {"steps", steps},
      {"correction", correction}};
  const auto found = tasks.find(task);
  if (found == tasks.end()) {
    std::fprintf(stderr, "paper_plans: no task '%s'; bench/paper/paper.py runs this program\n",
                 task.c_str());
    return 2;
  }
  const auto answer = found->second(nlohmann::json::parse(text));
  if (!answer) {
    std::fprintf(stderr, "paper_plans: %s\n", answer.error().to_string().c_str());
    return 1;
  }
  std::printf("%s\n", answer->dump().c_str());
  return 0;
}

}  // namespace
}  // namespace isocost::paper

int main(int argc, char** argv) {
  try {
    return isocost::paper::run(argc == 2 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paper_plans: %s\n", error.what());
    return 1;
  }
}
