#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/read_file.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/common/number_range.h"
#include "cli/lab/commands.h"
#include "cli/trace/cost_csv.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 28;
constexpr std::size_t kShownBins = 64;

struct BalanceArguments {
  std::string costs;
  std::size_t bins = 0;
  std::vector<double> slowdowns;
  std::string capacity;
  std::string bytes_column;
  std::int64_t evaluations = BalanceOptions{}.improvement_rounds;
  bool json = false;

  void add_to(CLI::App& command);
};

// Returns the index of the column that holds bytes: the one that --bytes-column names by name or
// number, or one called "bytes". Returns nothing if there is none.
Result<std::optional<std::size_t>> find_bytes(const CostCsv& table,
                                              const BalanceArguments& arguments) {
  const std::string& wanted = arguments.bytes_column;
  const std::string name = wanted.empty() ? "bytes" : wanted;
  const auto found = std::find(table.names.begin(), table.names.end(), name);
  if (found != table.names.end()) {
    return std::optional(static_cast<std::size_t>(found - table.names.begin()));
  }
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool is_number = failure == std::errc() && end == wanted.data() + wanted.size();
  if (is_number && number >= 1 && number <= table.columns) return std::optional(number - 1);
  if (!wanted.empty()) {
    return Error(ErrorCode::kInvalidArgument, "--bytes-column: there is no column '" + wanted +
                                                  "' among " + counted(table.columns, "column") +
                                                  "; give its name or number (the " +
                                                  "first is 1)");
  }
  if (!arguments.capacity.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "--capacity needs a column 'bytes'; name the column of bytes with "
                 "--bytes-column NAME or NUMBER (the first is 1)");
  }
  return std::optional<std::size_t>();
}

// Takes costs and, if they are capped, bytes from the table. Bytes are rounded up.
Status fill(BalanceProblem& problem, const CostCsv& table, std::optional<std::size_t> bytes) {
  problem.dimensions = table.columns - (bytes ? 1 : 0);
  if (problem.dimensions == 0) {
    return Error(ErrorCode::kCorrupt, "there is no column of costs besides the column of bytes");
  }
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    const double value = table.values[i];
    if (i % table.columns != bytes) {
      problem.costs.push_back(value);
    } else if (value > 1e18) {
      return Error(ErrorCode::kCorrupt,
                   "item " + std::to_string(i / table.columns) + ": more than 1e18 bytes");
    } else if (!problem.resources.empty()) {
      problem.sizes.push_back(static_cast<std::int64_t>(std::ceil(value)));
    }
  }
  return {};
}

Status set_capacity(BalanceProblem& problem, const std::string& capacity) {
  if (capacity.empty()) return {};
  const auto bytes = parse_bytes(capacity);
  if (!bytes) return Error(bytes.error()).with_context("--capacity");
  if (*bytes == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "--capacity is 0; leave it out for bins without a limit");
  }
  problem.resources = {{"bytes", *bytes}};
  return {};
}

Status check_slowdowns(const BalanceProblem& problem) {
  const std::vector<double>& slowdowns = problem.rank_slowdowns;
  if (slowdowns.empty()) return {};
  if (slowdowns.size() != problem.ranks) {
    return Error(ErrorCode::kInvalidArgument, "--slowdowns has " +
                                                  counted(slowdowns.size(), "number") +
                                                  ", --bins is " + std::to_string(problem.ranks));
  }
  const auto wrong = std::find_if(slowdowns.begin(), slowdowns.end(), [](double slowdown) {
    return !(slowdown >= 0.01 && slowdown <= 100);
  });
  if (wrong == slowdowns.end()) return {};
  return Error(ErrorCode::kInvalidArgument,
               "--slowdowns: bin " + std::to_string(wrong - slowdowns.begin()) +
                   " has a slowdown outside of 0.01 to 100 (a bin of 1.2 takes 20 % longer)");
}

// Checks the problem. balance() refuses the same problems, but its messages use ranks and
// microbatches.
Status check(const BalanceProblem& problem) {
  if (problem.dimensions > 8) {
    return Error(ErrorCode::kInvalidArgument,
                 counted(problem.dimensions, "column") + " of costs; 1 to 8 are allowed");
  }
  if (problem.items() < problem.ranks) {
    return Error(ErrorCode::kInvalidArgument, counted(problem.items(), "item") + " cannot fill " +
                                                  counted(problem.ranks, "bin") +
                                                  " (--bins) with one item each");
  }
  for (std::size_t i = 0; i < problem.sizes.size(); ++i) {
    const std::int64_t cap = problem.resources.front().cap;
    if (problem.sizes[i] > cap) {
      return Error(ErrorCode::kResourceExhausted,
                   "item " + std::to_string(i) + " has " + std::to_string(problem.sizes[i]) +
                       " bytes, a bin may hold " + std::to_string(cap) +
                       ": raise --capacity or leave the item out");
    }
  }
  return check_slowdowns(problem);
}

Result<std::string> read_costs(const BalanceArguments& arguments) {
  const std::string file = arguments.costs == "-" ? "/dev/stdin" : arguments.costs;
  return as_usage_error(read_file("--costs:", file, kMaxFileBytes));
}

Result<BalanceProblem> parse_problem(const std::string& text, const BalanceArguments& arguments) {
  BalanceProblem problem{.ranks = arguments.bins, .rank_slowdowns = arguments.slowdowns};
  ISOCOST_ASSIGN(const CostCsv table, parse_cost_csv(text, {}));
  ISOCOST_ASSIGN(const auto bytes, find_bytes(table, arguments));
  ISOCOST_TRY(set_capacity(problem, arguments.capacity));
  ISOCOST_TRY(fill(problem, table, bytes));
  ISOCOST_TRY(check(problem));
  return problem;
}

// Returns the loads of each bin [bins][dimensions]: its costs times its slowdown.
std::vector<std::vector<double>> loads_of(const BalanceProblem& problem,
                                          const BalanceResult& result) {
  std::vector<std::vector<double>> loads;
  for (std::size_t bin = 0; bin < result.bins.size(); ++bin) {
    auto& load = loads.emplace_back(problem.dimensions, 0.0);
    for (const std::uint32_t item : result.bins[bin]) {
      for (std::size_t k = 0; k < load.size(); ++k) {
        load[k] += problem.costs[item * load.size() + k];
      }
    }
    for (double& seconds : load) seconds *= problem.slowdown_of(bin);
  }
  return loads;
}

void print_result_json(const BalanceProblem& problem, const BalanceResult& result, double seconds) {
  const auto by_dimension = loads_of(problem, result);
  std::vector<double> largest;
  largest.reserve(by_dimension.size());
  for (const auto& load : by_dimension) {
    largest.push_back(*std::max_element(load.begin(), load.end()));
  }
  print_json({{"bins", result.bins},
              {"loads", largest},
              {"loads_by_dimension", by_dimension},
              {"makespan", result.makespan},
              {"lower_bound", result.lower_bound},
              {"gap", result.gap()},
              {"optimal", result.optimal},
              {"limit", limit_name(result.limit)},
              {"solve_seconds", seconds}},
             -1);
}

void print_table(const BalanceProblem& problem, const BalanceResult& result, double seconds) {
  const auto loads = loads_of(problem, result);
  std::printf("%6s %6s  %s\n", "bin", "items", "loads");
  for (std::size_t bin = 0; bin < std::min(loads.size(), kShownBins); ++bin) {
    std::printf("%6zu %6zu ", bin, result.bins[bin].size());
    for (const double load : loads[bin]) std::printf(" %12.6g", load);
    std::printf("\n");
  }
  if (loads.size() > kShownBins) {
    std::printf("  ... and %zu more; --json lists all\n", loads.size() - kShownBins);
  }
  std::printf(
      "makespan    %.9g\nlower bound %.9g (%s)\ngap         %.4f %%%s\nsolved in   %.2f ms\n",
      result.makespan, result.lower_bound, std::string(limit_name(result.limit)).c_str(),
      100 * result.gap(), result.optimal ? " (proved optimal)" : "", 1e3 * seconds);
}

// Returns an error of balance() in terms of bins.
Error error_of_bins(const Error& error, const BalanceProblem& problem) {
  if (error.code() != ErrorCode::kResourceExhausted) return error;
  return {error.code(), "no packing found of the items' bytes into " +
                            counted(problem.ranks, "bin") + " of at most " +
                            std::to_string(problem.resources.front().cap) +
                            " bytes: raise --capacity or --bins"};
}

Result<int> run_balance(const BalanceArguments& arguments) {
  ISOCOST_ASSIGN(const std::string text, read_costs(arguments));
  auto problem = as_usage_error(parse_problem(text, arguments));
  if (!problem) return std::move(problem).error().with_context(arguments.costs);
  BalanceOptions options;
  options.improvement_rounds = arguments.evaluations;
  const auto started = std::chrono::steady_clock::now();
  const auto balanced = balance(*problem, options);
  if (!balanced) return error_of_bins(balanced.error(), *problem).with_context(arguments.costs);
  const BalanceResult& result = *balanced;
  const double seconds = seconds_between(started, std::chrono::steady_clock::now());
  (arguments.json ? print_result_json : print_table)(*problem, result, seconds);
  return kDone;
}

void BalanceArguments::add_to(CLI::App& command) {
  command
      .add_option("--costs", costs,
                  "CSV with a row per item and a column per dimension, header optional; - reads "
                  "standard input. A column called 'bytes' holds no costs")
      ->required()
      ->type_name("FILE");
  command.add_option("--bins", bins, "Number of bins; each gets at least one item")
      ->required()
      ->check(number_range(1, 1 << 30));
  command
      .add_option("--slowdowns", slowdowns,
                  "Factors of the bins' loads: a bin of 1.2 takes 20 % longer")
      ->delimiter(',')
      ->type_name("A,B,...");
  command.add_option("--capacity", capacity, "Limit of bytes per bin; default: no limit")
      ->type_name("SIZE");
  command
      .add_option("--bytes-column", bytes_column,
                  "Column of bytes, by name or number (the first is 1); default: 'bytes'")
      ->type_name("COLUMN");
  command
      .add_option("--evaluations", evaluations,
                  "Search budget: pairs of bins evaluated, per bin. More gets nearer to the "
                  "bound and takes longer")
      ->check(number_range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  command.add_flag("--json", json, "Print JSON instead of a table");
}

constexpr const char* kBalanceFooter =
    "The largest load of all dimensions counts: bring them to one scale first (seconds).\n"
    "JSON: bins lists row numbers from 0; loads is the largest dimension of each bin; gap is\n"
    "makespan / lower_bound - 1; limit names the bound that is the greatest "
    "(docs/balancing.md).\n"
    "Examples:\n  isocost-lab balance --costs costs.csv --bins 64\n"
    "  isocost-lab balance --costs costs.csv --bins 4 --slowdowns 1,1,1,1.2 --json > plan.json\n"
    "  isocost-lab balance --costs costs.csv --bins 64 --capacity 2GiB --bytes-column 3";

}  // namespace

void add_balance(CLI::App& app, Run& run) {
  add_command<BalanceArguments>(
      app, run,
      {.name = "balance",
       .description = "Partition items with costs into bins so that the largest load is small.",
       .footer = kBalanceFooter},
      run_balance);
}

}  // namespace isocost::cli
