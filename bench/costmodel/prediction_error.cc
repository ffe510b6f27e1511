// How far are predicted seconds from measured ones, for the demo's model on one core?
//
// Takes microbatches of the demo's shards in order, so that they differ as much as the data do, and
// measures a model profile, which does not see them. Each microbatch is timed before and after that
// as the trainer runs it. The median is compared with two predictions from the profile: that of the
// cost model, and that of the published method (DFLOP), which divides the module's FLOP by one
// throughput. Prints a row for each module; --json writes the same and every microbatch.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "costmodel/cost_model.h"
#include "decode/recipe.h"
#include "examples/multimodal_trainer/model.h"
#include "examples/multimodal_trainer/profile_example.h"
#include "examples/multimodal_trainer/train_step.h"
#include "loader/node/node.h"
#include "loader/node/node_thread.h"

namespace isocost {
namespace {

struct Options {
  std::string data = "build/demo/shards";
  std::size_t microbatches = 64;
  std::size_t repeats = 6;
  double budget_s = 120;
  std::string profile;
  std::string json;
};

struct HeldOut {
  TorchMicrobatch microbatch;
  std::vector<Load> samples;
};

// Returns microbatches of 8 samples. All are decoded before anything is timed.
Result<std::vector<HeldOut>> draw(const Options& options) {
  NodeOptions node_options;
  node_options.data = options.data;
  node_options.plan.global_batch_size = 32;
  node_options.plan.ranks = 1;
  node_options.plan.balance = BalancePolicy::kInOrder;
  node_options.service.bind = "tcp://127.0.0.1:*";
  node_options.bad_samples.file = "";
  ISOCOST_ASSIGN(std::unique_ptr<Node> node, Node::create(node_options, {}, {}));
  ISOCOST_ASSIGN(const Recipe recipe, Recipe::create({}));
  NodeThread serving(std::move(node));
  LoaderOptions loader_options;
  loader_options.endpoint = serving.endpoint();
  TorchLoader loader(loader_options);
  std::vector<HeldOut> drawn;
  while (drawn.size() < options.microbatches) {
    std::optional<TorchMicrobatch> microbatch = loader.next();
    if (!microbatch) break;
    HeldOut held_out{.microbatch = std::move(*microbatch), .samples = {}};
    for (const SampleEntry& sample : held_out.microbatch.header.samples) {
      ISOCOST_ASSIGN(held_out.samples.emplace_back(),
                     recipe.load(serving.node().dataset().shape(sample.id)));
    }
    drawn.push_back(std::move(held_out));
  }
  return drawn;
}

struct Measured {
  std::array<double, kModules> median{};
  std::array<double, kModules> spread{};  // half of the range over the median
};

// [microbatches][modules][passes], seconds.
using Runs = std::vector<std::array<std::vector<double>, kModules>>;

// Each pass runs all of them, so that a passing disturbance of the machine affects each at most
// once.
void run_passes(MultimodalModel& model, const std::vector<HeldOut>& held_out, std::size_t repeats,
                Runs& runs) {
  runs.resize(held_out.size());
  for (std::size_t pass = 0; pass < repeats; ++pass) {
    for (std::size_t n = 0; n < held_out.size(); ++n) {
      const MicrobatchResult result = train_microbatch(model, held_out[n].microbatch);
      for (std::size_t m = 0; m < kModules; ++m) runs[n].at(m).push_back(result.seconds.at(m));
      std::fprintf(stderr, "\rpass %zu of %zu: %zu of %zu microbatches ", pass + 1, repeats, n + 1,
                   held_out.size());
    }
  }
  std::fprintf(stderr, "\n");
}

std::vector<Measured> medians(Runs runs) {
  std::vector<Measured> measured(runs.size());
  for (std::size_t n = 0; n < runs.size(); ++n) {
    for (std::size_t m = 0; m < kModules; ++m) {
      const Distribution range = distribution_of(runs[n].at(m));
      measured[n].median.at(m) = median(runs[n].at(m));
      measured[n].spread.at(m) = (range.most - range.least) / 2 / measured[n].median.at(m);
    }
  }
  return measured;
}

// FLOP of the example's modules, forward and backward: multiply-adds of the matrix products.
double flop(CostModule module, const ModuleLoad& load) {
  const ModelOptions options;
  const bool is_llm = module == CostModule::kLlm;
  const bool is_vision = module == CostModule::kVision;
  const auto width = static_cast<double>(is_llm      ? options.llm_width
                                         : is_vision ? options.vision_width
                                                     : options.audio_width);
  const auto depth = static_cast<double>(is_llm      ? options.llm_depth
                                         : is_vision ? options.vision_depth
                                                     : options.audio_depth);
  const auto llm_width = static_cast<double>(options.llm_width);
  const double ends = is_llm      ? width * kVocabulary
                      : is_vision ? width * 588 + width * llm_width
                                  : width * 2 * 2 * 128 + width * llm_width;
  return 6 * (static_cast<double>(load.units) * (12 * width * width * depth + ends) +
              static_cast<double>(load.units_squared) * 2 * width * depth);
}

// Seconds per FLOP: the one that fits the profile's points best in relative terms.
double seconds_a_flop(CostModule module, const ModuleProfile& profile) {
  double xy = 0;
  double xx = 0;
  for (const ProfilePoint& point : profile.points) {
    const double x = flop(module, point.load) / point.seconds();
    xy += x;
    xx += x * x;
  }
  return xx > 0 ? xy / xx : 0;
}

// The mean and the 95th percentile of relative errors.
struct Errors {
  double mape = std::numeric_limits<double>::quiet_NaN();
  double p95 = std::numeric_limits<double>::quiet_NaN();
};

Errors summarize(std::vector<double> misses) {
  if (misses.empty()) return {};
  std::sort(misses.begin(), misses.end());
  double sum = 0;
  for (const double miss : misses) sum += miss;
  const auto at = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(misses.size())));
  return {.mape = sum / static_cast<double>(misses.size()), .p95 = misses[at - 1]};
}

Result<CostProfile> profile_of(const Options& options, MultimodalModel& model) {
  if (!options.profile.empty()) return CostProfile::load(options.profile);
  return profile_example(model, options.budget_s);
}

Status run(const Options& options) {
  ISOCOST_ASSIGN(const std::vector<HeldOut> held_out, draw(options));
  torch::manual_seed(0);
  MultimodalModel model(ModelOptions{});
  // Half of the passes run before the profile is measured and half after it, so that a drift of the
  // machine's speed does not count as the profile's error.
  Runs runs;
  train_microbatch(model, held_out.front().microbatch);  // allocates the gradients once
  run_passes(model, held_out, (options.repeats + 1) / 2, runs);
  ISOCOST_ASSIGN(const CostProfile profile, profile_of(options, model));
  run_passes(model, held_out, (options.repeats + 1) / 2, runs);
  const CostModel cost_model(profile, {.correct = false});
  std::array<std::vector<double>, kModules> ours;
  std::array<std::vector<double>, kModules> theirs;
  nlohmann::json rows = nlohmann::json::array();
  std::array<std::vector<double>, kModules> spreads;
  const std::vector<Measured> all = medians(std::move(runs));
  for (std::size_t n = 0; n < held_out.size(); ++n) {
    const HeldOut& one = held_out[n];
    Load load;
    for (const Load& sample : one.samples) load += sample;
    if (load.modules != one.microbatch.header.load.modules) {
      return Error(ErrorCode::kInternal, "the delivered load differs from the planned one");
    }
    const auto predicted = cost_model.predict_microbatch(load, cost_model.shape_of(one.samples));
    const std::array<double, kModules>& measured = all[n].median;
    for (std::size_t m = 0; m < kModules; ++m) {
      if (load.modules.at(m).units == 0) continue;
      const auto module = static_cast<CostModule>(m);
      const double by_throughput =
          seconds_a_flop(module, profile.modules.at(m)) * flop(module, load.modules.at(m));
      ours.at(m).push_back(std::abs(predicted.at(m) / measured.at(m) - 1));
      theirs.at(m).push_back(std::abs(by_throughput / measured.at(m) - 1));
      spreads.at(m).push_back(all[n].spread.at(m));
      rows.push_back({{"module", module_name(module)},
                      {"sequences", load.modules.at(m).sequences},
                      {"units", load.modules.at(m).units},
                      {"units_squared", load.modules.at(m).units_squared},
                      {"measured_s", measured.at(m)},
                      {"spread", all[n].spread.at(m)},
                      {"predicted_s", predicted.at(m)},
                      {"one_throughput_s", by_throughput}});
    }
  }
  nlohmann::json summary;
  std::printf("%-8s %13s %12s %8s %8s %22s %8s\n", "module", "microbatches", "spread", "MAPE",
              "p95", "one throughput: MAPE", "p95");
  for (std::size_t m = 0; m < kModules; ++m) {
    const std::string name(module_name(static_cast<CostModule>(m)));
    const Errors us = summarize(ours.at(m));
    const Errors them = summarize(theirs.at(m));
    const double spread = summarize(spreads.at(m)).mape;
    std::printf("%-8s %13zu %10.1f %% %6.1f %% %6.1f %% %20.1f %% %6.1f %%\n", name.c_str(),
                ours.at(m).size(), 100 * spread, 100 * us.mape, 100 * us.p95, 100 * them.mape,
                100 * them.p95);
    summary[name] = {{"spread", spread},
                     {"mape", us.mape},
                     {"p95", us.p95},
                     {"one_throughput", {{"mape", them.mape}, {"p95", them.p95}}}};
  }
  if (options.json.empty()) return {};
  std::ofstream(options.json) << nlohmann::json{
      {"modules", summary},
      {"microbatches", rows},
      {"profile",
       nlohmann::json::parse(
           profile.to_json())}}.dump(2);
  return {};
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) {
  CLI::App app(
      "Compares predicted with measured seconds of the demo's model, on microbatches that its "
      "model profile has not seen.");
  isocost::Options options;
  app.add_option("data", options.data, "Directory of shards")->capture_default_str();
  app.add_option("--microbatches", options.microbatches, "Microbatches to time, of 8 samples each")
      ->capture_default_str();
  app.add_option("--repeats", options.repeats,
                 "Passes over all microbatches, half of them before the model is profiled")
      ->capture_default_str();
  app.add_option("--budget", options.budget_s, "Seconds of profiling")->capture_default_str();
  app.add_option("--profile", options.profile,
                 "Model profile that was measured before, instead of measuring one")
      ->type_name("FILE");
  app.add_option("--json", options.json, "Write the summary and every microbatch to this file")
      ->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  // The trainer also computes on one thread and keeps freed memory for the next tensor.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  at::set_num_threads(1);
  try {
    const isocost::Status status = isocost::run(options);
    if (status) return 0;
    std::fprintf(stderr, "prediction_error: %s\n", status.error().to_string().c_str());
  } catch (const std::exception& error) {  // what libtorch throws
    std::fprintf(stderr, "prediction_error: %s\n", error.what());
  }
  return 1;
}
