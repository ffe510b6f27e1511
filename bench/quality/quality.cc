// How good decisions are, without a clock: makespan, gap to the bound and idle share of each policy
// on fixed seeds. Fails where a decision is worse than the recorded one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/quality/workload.h"

namespace {

using isocost::balance;
using isocost::BalanceProblem;
using isocost::BalanceResult;
using isocost::Objective;
using isocost::Result;
using nlohmann::json;

struct Case {
  std::string name;
  std::string mixture;
  Objective objective;
  std::size_t items;
  std::size_t ranks;
  std::size_t microbatches;
  double cap;
};

const std::vector<Case>& cases() {
  constexpr auto kMicrobatch = Objective::kLargestMicrobatch;
  constexpr auto kRank = Objective::kSlowestRank;
  static const std::vector<Case> list = {
      {"documents 512 to 8x8, microbatch", "documents", kMicrobatch, 512, 8, 8, 0},
      {"documents 2048 to 32x8, microbatch", "documents", kMicrobatch, 2048, 32, 8, 0},
      {"documents 512 to 8x8, rank", "documents", kRank, 512, 8, 8, 0},
      {"mixed 512 to 8x8, microbatch", "mixed", kMicrobatch, 512, 8, 8, 0},
      {"mixed 2048 to 32x8, microbatch", "mixed", kMicrobatch, 2048, 32, 8, 0},
      {"mixed 512 to 8x8, rank", "mixed", kRank, 512, 8, 8, 0},
      {"mixed 64 to 2x8, rank", "mixed", kRank, 64, 2, 8, 0},
      {"mixed 512 to 8x8, rank, cap 1.005", "mixed", kRank, 512, 8, 8, 1.005},
  };
  return list;
}

constexpr std::uint64_t kSeeds = 5;
// Sums may round otherwise with another compiler; a decision that is worse is worse by more.
constexpr double kRounding = 1e-9;

// LPT on the LLM's seconds alone, as one-dimensional balancers do; judged by all dimensions.
Result<BalanceResult> llm_lpt(const BalanceProblem& problem) {
  BalanceProblem narrow{
      .ranks = problem.ranks, .microbatches = problem.microbatches, .objective = problem.objective};
  for (std::size_t i = 0; i < problem.items(); ++i) {
    narrow.costs.push_back(problem.costs[i * problem.dimensions + 1]);
  }
  return balance(narrow, {.improvement_rounds = 0, .exact_items = 0});
}

// The objective and the mean load, from the bins alone: policies are judged by one measure.
struct Score {
  double makespan = 0;
  double mean = 0;
};
Score score(const BalanceProblem& problem, const std::vector<std::vector<std::uint32_t>>& bins) {
  const bool by_rank = problem.objective == Objective::kSlowestRank;
  const std::size_t group = by_rank ? problem.microbatches : 1;
  Score result;
  double total = 0;
  for (std::size_t first = 0; first < bins.size(); first += group) {
    std::vector<double> load(problem.dimensions, 0.0);
    for (std::size_t b = first; b < first + group; ++b) {
      for (const std::uint32_t item : bins[b]) {
        for (std::size_t k = 0; k < load.size(); ++k) {
          load[k] += problem.costs[item * load.size() + k];
        }
      }
    }
    const double seconds =
        by_rank ? load[0] + load[1] : *std::max_element(load.begin(), load.end());
    result.makespan = std::max(result.makespan, seconds);
    total += by_rank ? seconds : 1;
  }
  const std::size_t groups = bins.size() / group;
  result.mean = total / static_cast<double>(groups);
  return result;
}

Result<json> run_policy(const std::string& policy, const Case& what,
                        const isocost::Mixture& mixture) {
  double makespan = 0;
  double gap = 0;
  double idle = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const BalanceProblem problem = draw_problem(mixture, what.objective, what.items, what.ranks,
                                                what.microbatches, what.cap, seed);
    ISOCOST_ASSIGN(const BalanceResult result, policy == "blind" ? deal_in_order(problem)
                                               : policy == "lpt" ? llm_lpt(problem)
                                                                 : balance(problem, {}));
    const Score judged = score(problem, result.bins);
    makespan += judged.makespan / kSeeds;
    gap += (judged.makespan / lower_bound(problem) - 1) / kSeeds;
    idle += (1 - judged.mean / judged.makespan) / kSeeds;
  }
  return json{{"makespan", makespan}, {"gap", std::max(gap, 0.0)}, {"idle_fraction", idle}};
}

Result<json> run_all(const std::string& folder) {
  json report;
  for (const Case& what : cases()) {
    ISOCOST_ASSIGN(const isocost::Mixture mixture, isocost::load_mixture(what.mixture, folder));
    for (const char* policy : {"blind", "lpt", "isocost"}) {
      ISOCOST_ASSIGN(report[what.name][policy], run_policy(policy, what, mixture));
    }
  }
  return report;
}

void print_table(const json& report) {
  std::printf("%-40s %-8s %9s %9s %7s\n", "case (means of 5 seeds)", "policy", "makespan", "gap",
              "idle");
  for (const auto& [name, policies] : report.items()) {
    for (const char* policy : {"blind", "lpt", "isocost"}) {
      const json& row = policies[policy];
      std::printf("%-40s %-8s %9.5f %8.3f%% %6.2f%%\n", name.c_str(), policy,
                  row["makespan"].get<double>(), 100 * row["gap"].get<double>(),
                  100 * row["idle_fraction"].get<double>());
    }
  }
}

// The number of cases that are worse than recorded, or not comparable with it.
int count_worse(const json& report, const json& recorded) {
  int worse = 0;
  for (const auto& [name, policies] : report.items()) {
    const double now = policies["isocost"]["makespan"];
    const double before =
        recorded.contains(name) ? recorded[name]["isocost"]["makespan"].get<double>() : 0;
    if (now > before * (1 + kRounding)) {
      std::fprintf(stderr, "%s: makespan %.9f is worse than the recorded %.9f\n", name.c_str(), now,
                   before);
      ++worse;
    } else if (now < before * (1 - kRounding)) {
      std::printf("%s: better than recorded (%.9f); keep it with --record\n", name.c_str(), before);
    }
  }
  return worse;
}

int compare(const json& report, const std::string& file) {
  std::ifstream stream(file);
  const json recorded = json::parse(stream, nullptr, false);
  if (!recorded.is_object()) {
    std::fprintf(stderr, "%s is no record: write one with --record\n", file.c_str());
    return 1;
  }
  return count_worse(report, recorded) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Decision quality on fixed seeds, against a record");
  std::string data = ISOCOST_QUALITY_DATA;
  std::string baseline = ISOCOST_QUALITY_BASELINE;
  bool record = false;
  bool as_json = false;
  app.add_option("--data", data, "folder of the traces")->check(CLI::ExistingDirectory);
  app.add_option("--baseline", baseline, "the record to compare with");
  app.add_flag("--record", record, "write the record instead of comparing");
  app.add_flag("--json", as_json, "print JSON instead of a table");
  CLI11_PARSE(app, argc, argv);
  const Result<json> report = run_all(data);
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().to_string().c_str());
    return 2;
  }
  if (as_json) {
    std::cout << report->dump(2) << "\n";
  } else {
    print_table(*report);
  }
  if (!record) return compare(*report, baseline);
  std::ofstream(baseline) << report->dump(2) << "\n";
  return 0;
}
