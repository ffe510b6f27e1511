#include "loader/plan/internal/padded_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace isocost {
namespace {

using Bins = std::vector<std::vector<std::uint32_t>>;

constexpr auto kLlm = static_cast<std::size_t>(CostModule::kLlm);
constexpr int kHalvings = 60;

double sum(const ModuleSeconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::int64_t length_of(const Load& load, const CostModel& model) {
  return model.padded_length(CostModule::kLlm, load[CostModule::kLlm]);
}

ModuleLoad padded_to(const ModuleLoad& load, std::int64_t length) {
  return {load.sequences, load.sequences * length, load.sequences * length * length};
}

std::vector<Load> loads_of(const std::vector<Load>& loads, const std::vector<std::uint32_t>& bin) {
  std::vector<Load> of_bin;
  of_bin.reserve(bin.size());
  for (const std::uint32_t sample : bin) of_bin.push_back(loads[sample]);
  return of_bin;
}

// Returns the seconds of a microbatch as it is run, without its fixed seconds.
double seconds_as_run(const std::vector<Load>& loads, const std::vector<std::uint32_t>& bin,
                      const CostModel& model) {
  double seconds = 0;
  for (const Load& load : model.as_run(loads_of(loads, bin))) {
    seconds += sum(model.predict_sample(load));
  }
  return seconds;
}

double makespan_as_run(const std::vector<Load>& loads, const BalanceProblem& problem,
                       const Bins& bins, const CostModel& model) {
  double slowest = 0;
  for (std::size_t rank = 0; rank < problem.ranks; ++rank) {
    double seconds = 0;
    for (std::size_t m = 0; m < problem.microbatches; ++m) {
      seconds += seconds_as_run(loads, bins[rank * problem.microbatches + m], model);
    }
    slowest = std::max(slowest, problem.slowdown_of(rank) * seconds);
  }
  return slowest;
}

// The samples of a step by length, longest first, and the cuts of this order into runs.
class LengthOrder {
 public:
  LengthOrder(const std::vector<Load>& loads, const CostModel& model,
              const MicrobatchLimits& limits)
      : loads_(loads), limits_(limits), order_(loads.size()), others_(loads.size() + 1, 0.0) {
    for (const Load& load : loads) lengths_.push_back(length_of(load, model));
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return lengths_[a] > lengths_[b]; });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      ModuleSeconds seconds = model.predict_sample(loads[order_[i]]);
      seconds[kLlm] = 0;
      others_[i + 1] = others_[i] + sum(seconds);
      Load one;
      one[CostModule::kLlm] = padded_to({.sequences = 1}, lengths_[order_[i]]);
      sequence_s_.push_back(model.predict_sample(one)[kLlm]);
    }
  }

  // Cuts the order into `count` runs so that the most expensive one costs least. Returns nothing if
  // that many runs cannot keep the limits.
  std::optional<Bins> cut(std::size_t count) const {
    std::vector<double> prices = sequence_s_;
    // A longer sample must not make a run cheaper, which corrected prices do not ensure.
    for (std::size_t i = prices.size(); i-- > 1;)
      prices[i - 1] = std::max(prices[i - 1], prices[i]);
    double low = 0;
    double high = 2 * run_seconds(0, order_.size(), prices);  // more than any run costs
    auto best = fill(high, count, prices);
    if (!best) return std::nullopt;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = low + (high - low) / 2;
      auto ends = fill(middle, count, prices);
      (ends ? high : low) = middle;
      if (ends) best = std::move(ends);
    }
    while (best->size() < count) split_most_expensive(*best, prices);
    return bins_of(*best);
  }

  // Returns the least seconds that each sample's LLM sequences can cost, whatever length they are
  // padded to.
  std::vector<double> least_seconds() const {
    std::vector<double> least(order_.size(), 0.0);
    double cheapest = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      cheapest = i == 0 ? sequence_s_[i] : std::min(cheapest, sequence_s_[i]);
      const ModuleLoad& load = loads_[order_[i]][CostModule::kLlm];
      least[order_[i]] = static_cast<double>(load.sequences) * cheapest;
    }
    return least;
  }

 private:
  using Ends = std::vector<std::size_t>;  // end of each run in `order_`

  // Returns the seconds of the run [begin, end), whose first sample is its longest.
  double run_seconds(std::size_t begin, std::size_t end, const std::vector<double>& prices) const {
    std::int64_t sequences = 0;
    for (std::size_t i = begin; i < end; ++i) sequences += sequences_at(i);
    return others_[end] - others_[begin] + static_cast<double>(sequences) * prices[begin];
  }

  std::int64_t sequences_at(std::size_t i) const {
    return loads_[order_[i]][CostModule::kLlm].sequences;
  }

  // Adds the sample at `i`, padded to `length`, to a run. Returns false if it has no room.
  bool add(std::size_t i, std::int64_t length, MicrobatchRoom& room) const {
    if (limits_.empty()) return true;
    Load load = loads_[order_[i]];
    load[CostModule::kLlm] = padded_to(load[CostModule::kLlm], length);
    return room.add(load);
  }

  // Fills run after run up to `most` seconds. Returns nothing if that takes more than `count` runs.
  std::optional<Ends> fill(double most, std::size_t count,
                           const std::vector<double>& prices) const {
    Ends ends;
    std::size_t begin = 0;
    while (begin < order_.size()) {
      if (ends.size() == count) return std::nullopt;
      const std::int64_t length = lengths_[order_[begin]];
      MicrobatchRoom room(limits_);
      std::int64_t sequences = 0;
      std::size_t end = begin;
      for (; end < order_.size(); ++end) {
        sequences += sequences_at(end);
        const double seconds =
            others_[end + 1] - others_[begin] + static_cast<double>(sequences) * prices[begin];
        if (seconds > most || !add(end, length, room)) break;
      }
      if (end == begin) return std::nullopt;
      begin = end;
      ends.push_back(end);
    }
    return ends;
  }

  void split_most_expensive(Ends& ends, const std::vector<double>& prices) const {
    std::size_t worst = ends.size();
    double worst_s = -1;
    for (std::size_t run = 0; run < ends.size(); ++run) {
      const std::size_t begin = run == 0 ? 0 : ends[run - 1];
      const double seconds = run_seconds(begin, ends[run], prices);
      if (ends[run] - begin < 2 || seconds <= worst_s) continue;
      worst = run;
      worst_s = seconds;
    }
    const std::size_t begin = worst == 0 ? 0 : ends[worst - 1];
    ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(worst),
                begin + (ends[worst] - begin) / 2);
  }

  Bins bins_of(const Ends& ends) const {
    Bins bins;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      auto& bin = bins.emplace_back(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                                    order_.begin() + static_cast<std::ptrdiff_t>(end));
      std::sort(bin.begin(), bin.end());
      begin = end;
    }
    return bins;
  }

  const std::vector<Load>& loads_;
  const MicrobatchLimits& limits_;
  std::vector<std::int64_t> lengths_;  // by sample
  std::vector<std::uint32_t> order_;   // samples, longest first
  std::vector<double> others_;         // prefix sums of the other modules' seconds
  std::vector<double>
      sequence_s_;  // seconds of one LLM sequence as long as the sample at this place in order_
};

// Gives each rank the same number of runs, so that the slowest rank takes as little time as
// possible.
Result<Bins> to_ranks(const std::vector<Load>& loads, const BalanceProblem& problem, Bins runs,
                      const BalanceOptions& options, const CostModel& model) {
  BalanceProblem whole{.ranks = problem.ranks,
                       .microbatches = problem.microbatches,
                       .rank_slowdowns = problem.rank_slowdowns,
                       .objective = Objective::kSlowestRank};
  for (const auto& run : runs) whole.costs.push_back(seconds_as_run(loads, run, model));
  ISOCOST_ASSIGN(const BalanceResult by_rank, balance(whole, options));
  Bins bins;
  for (const auto& run : by_rank.bins) bins.push_back(std::move(runs[run.front()]));
  return bins;
}

// Returns a load of LLM sequences of equal length.
Load sequences_of(std::int64_t count, std::int64_t length) {
  Load load;
  load[CostModule::kLlm] = padded_to({.sequences = count}, length);
  return load;
}

// Returns how many sequences of this length a microbatch can hold, up to `most`; at least one.
std::int64_t room_for(std::int64_t length, std::int64_t most, const MicrobatchLimits& limits) {
  std::int64_t fits = 1;
  std::int64_t too_many = most + 1;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (limits.holds(sequences_of(middle, length)) ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace

bool keeps_limits(const std::vector<Load>& loads,
                  const std::vector<std::vector<std::uint32_t>>& bins, const CostModel& model,
                  const MicrobatchLimits& limits) {
  return limits.empty() || std::all_of(bins.begin(), bins.end(), [&](const auto& bin) {
           return limits.keeps(model.as_run(loads_of(loads, bin)));
         });
}

std::int64_t least_padded_microbatches(const std::vector<Load>& loads, const CostModel& model,
                                       const MicrobatchLimits& limits) {
  // Each sequence counts on its own. Sequences of one sample share a microbatch in a plan, which
  // can only raise the number.
  std::vector<std::int64_t> lengths;
  for (const Load& load : loads) {
    const std::int64_t sequences = load[CostModule::kLlm].sequences;
    lengths.insert(lengths.end(), static_cast<std::size_t>(sequences), length_of(load, model));
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::int64_t count = 0;
  for (std::int64_t begin = 0; begin < std::ssize(lengths); ++count) {
    const std::int64_t length = lengths[static_cast<std::size_t>(begin)];
    begin += room_for(length, std::ssize(lengths) - begin, limits);
  }
  return count;
}

Result<BalanceResult> plan_padded(const std::vector<Load>& loads, const BalanceProblem& problem,
                                  const BalanceOptions& options, const CostModel& model,
                                  const MicrobatchLimits& limits) {
  auto unpadded = balance(problem, options);
  if (!unpadded && unpadded.error().code() != ErrorCode::kResourceExhausted) return unpadded;
  std::optional<BalanceResult> best;
  const auto consider = [&](Bins bins) {
    if (!keeps_limits(loads, bins, model, limits)) return;
    const double makespan = makespan_as_run(loads, problem, bins, model);
    if (best && best->makespan <= makespan) return;
    best.emplace();
    best->bins = std::move(bins);
    best->makespan = makespan;
  };
  if (unpadded) consider(std::move(unpadded->bins));
  const LengthOrder order(loads, model, limits);
  if (auto runs = order.cut(problem.ranks * problem.microbatches)) {
    ISOCOST_ASSIGN(Bins grouped, to_ranks(loads, problem, *std::move(runs), options, model));
    consider(std::move(grouped));
  }
  if (!best) {
    return Error(ErrorCode::kResourceExhausted,
                 "no division into microbatches of padded samples was found that keeps the limits");
  }
  BalanceProblem least = problem;
  const std::vector<double> llm_s = order.least_seconds();
  for (std::size_t i = 0; i < llm_s.size(); ++i) least.costs[i * kModules + kLlm] = llm_s[i];
  const LowerBound bound = find_lower_bound(least);
  best->lower_bound = std::min(bound.value, best->makespan);
  best->limit = bound.limit;
  return *std::move(best);
}

}  // namespace isocost
