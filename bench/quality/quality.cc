// Measures the quality of decisions without a clock: makespan, gap to the bound, idle fraction and
// memory of each policy on fixed seeds. Fails if a decision of any policy is worse than the
// recorded one, or if its plans differ: one seed has one plan on every machine and build.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/quality/pipeline_quality.h"
#include "bench/quality/record.h"
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
  double straggler = 1;  // slowdown of the first rank
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
      {"mixed 512 to 8x8, microbatch, cap 1.001", "mixed", kMicrobatch, 512, 8, 8, 1.001},
      {"mixed 512 to 8x8, rank, straggler", "mixed", kRank, 512, 8, 8, 0, 1.2},
      {"mixed 512 to 8x8, microbatch, straggler", "mixed", kMicrobatch, 512, 8, 8, 0, 1.2},
      {"mixed 512 to 8x8, straggler, cap 1.01", "mixed", kMicrobatch, 512, 8, 8, 1.01, 1.2},
  };
  return list;
}

constexpr std::uint64_t kSeeds = 5;

// LPT on only the LLM's seconds, as one-dimensional balancers do. The plan is scored in all
// dimensions.
Result<BalanceResult> llm_lpt(const BalanceProblem& problem) {
  BalanceProblem narrow{.ranks = problem.ranks,
                        .microbatches = problem.microbatches,
                        .rank_slowdowns = problem.rank_slowdowns,
                        .objective = problem.objective};
  for (std::size_t i = 0; i < problem.items(); ++i) {
    narrow.costs.push_back(problem.costs[i * problem.dimensions + 1]);
  }
  return lpt(narrow);
}

// The objective and the mean load, computed only from the bins, so that all policies are scored by
// one measure.
struct Score {
  double makespan = 0;
  double mean = 0;
  double bytes = 0;  // of the largest microbatch
};
Score score(const BalanceProblem& problem, const std::vector<std::vector<std::uint32_t>>& bins) {
  const bool by_rank = problem.objective == Objective::kSlowestRank;
  const std::size_t group = by_rank ? problem.microbatches : 1;
  Score result;
  double total = 0;
  for (std::size_t first = 0; first < bins.size(); first += group) {
    std::vector<double> load(problem.dimensions, 0.0);
    for (std::size_t b = first; b < first + group; ++b) {
      double bytes = 0;
      for (const std::uint32_t item : bins[b]) bytes += static_cast<double>(problem.size(item, 0));
      result.bytes = std::max(result.bytes, bytes);
      for (const std::uint32_t item : bins[b]) {
        for (std::size_t k = 0; k < load.size(); ++k) {
          load[k] += problem.costs[item * load.size() + k];
        }
      }
    }
    const double seconds =
        problem.slowdown_of(first / problem.microbatches) *
        (by_rank ? load[0] + load[1] : *std::max_element(load.begin(), load.end()));
    result.makespan = std::max(result.makespan, seconds);
    total += by_rank ? seconds : 1;
  }
  const std::size_t groups = bins.size() / group;
  result.mean = total / static_cast<double>(groups);
  return result;
}

// FNV-1a over the plans.
void mix(std::uint64_t& hash, const std::vector<std::vector<std::uint32_t>>& bins) {
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3ULL; };
  for (const auto& bin : bins) {
    add(bin.size());
    for (const std::uint32_t item : bin) add(item);
  }
}

Result<json> run_policy(const std::string& policy, const Case& what,
                        const isocost::TraceMixture& mixture) {
  double makespan = 0;
  double gap = 0;
  double idle = 0;
  double bytes = 0;
  std::uint64_t plans = 0xCBF29CE484222325ULL;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    BalanceProblem problem = draw_problem(mixture, what.objective, what.items, what.ranks,
                                          what.microbatches, what.cap, seed);
    if (what.straggler != 1) {
      problem.rank_slowdowns.assign(what.ranks, 1);
      problem.rank_slowdowns[0] = what.straggler;
    }
    ISOCOST_ASSIGN(const BalanceResult result, policy == "in-order" ? deal_in_order(problem)
                                               : policy == "lpt"    ? llm_lpt(problem)
                                                                    : balance(problem, {}));
    const Score scored = score(problem, result.bins);
    makespan += scored.makespan / kSeeds;
    gap += (scored.makespan / lower_bound(problem) - 1) / kSeeds;
    idle += (1 - scored.mean / scored.makespan) / kSeeds;
    bytes += scored.bytes / kSeeds;
    mix(plans, result.bins);
  }
  return json{{"makespan", makespan},
              {"gap", std::max(gap, 0.0)},
              {"idle_fraction", idle},
              {"largest_microbatch_bytes", bytes},
              {"plans", plans}};
}

Result<json> run_all(const std::string& folder) {
  json report;
  for (const Case& what : cases()) {
    ISOCOST_ASSIGN(const isocost::TraceMixture mixture,
                   isocost::load_mixture(what.mixture, folder));
    for (const char* policy : {"in-order", "lpt", "cost"}) {
      ISOCOST_ASSIGN(report[what.name][policy], run_policy(policy, what, mixture));
    }
  }
  ISOCOST_ASSIGN(const json pipelines, isocost::pipeline_quality(folder));
  report.update(pipelines);
  return report;
}

void print_table(const json& report) {
  std::printf("%-45s %-10s %9s %9s %7s %11s\n", "case (means of seeds)", "policy", "makespan",
              "gap", "idle", "memory");
  for (const auto& [name, policies] : report.items()) {
    for (const auto& [policy, row] : policies.items()) {
      double bytes = 0;
      for (const char* measure : std::span(isocost::kQualityMeasures).subspan(3)) {
        bytes = std::max(bytes, row.value(measure, 0.0));
      }
      std::printf("%-45s %-10s %9.5f %8.3f%% %6.2f%% %8.1f MB\n", name.c_str(), policy.c_str(),
                  row["makespan"].get<double>(), 100 * row.value("gap", 0.0),
                  100 * row["idle_fraction"].get<double>(), bytes / 1e6);
    }
  }
}

// Returns the record in a file, or null if it holds none.
json read_record(const std::string& file) {
  std::ifstream stream(file);
  json recorded = json::parse(stream, nullptr, false);
  return recorded.is_object() ? recorded : json();
}

int compare(const json& report, const std::string& file) {
  const json recorded = read_record(file);
  if (recorded.is_null()) {
    std::fprintf(stderr, "%s is not a record; write one with --record\n", file.c_str());
    return 1;
  }
  const std::vector<std::string> lines = isocost::differences(report, recorded);
  for (const std::string& line : lines) std::fprintf(stderr, "%s\n", line.c_str());
  return lines.empty() ? 0 : 1;
}

int write_record(const json& report, const std::string& file, const std::string& reason) {
  const Result<json> record = isocost::make_record(report, read_record(file), reason);
  if (!record) {
    std::fprintf(stderr, "%s\n", record.error().message().c_str());
    return 1;
  }
  std::ofstream(file) << record->dump(2) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Decision quality on fixed seeds, against a record");
  std::string data = ISOCOST_QUALITY_DATA;
  std::string baseline = ISOCOST_QUALITY_BASELINE;
  std::string reason;
  bool record = false;
  bool as_json = false;
  app.add_option("--data", data, "folder of the traces")->check(CLI::ExistingDirectory);
  app.add_option("--baseline", baseline, "the record to compare with");
  CLI::Option* const records =
      app.add_flag("--record", record, "write the record instead of comparing");
  app.add_option("--reason", reason, "why rows may be worse than recorded; kept with them")
      ->needs(records);
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
  return record ? write_record(*report, baseline, reason) : compare(*report, baseline);
}
