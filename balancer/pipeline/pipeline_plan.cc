#include "balancer/pipeline/pipeline_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "balancer/partition/balance.h"
#include "balancer/partition/lookahead.h"
#include "balancer/partition/validate.h"
#include "balancer/pipeline/internal/initial_divisions.h"
#include "balancer/pipeline/internal/pipeline_search.h"
#include "base/counted.h"
#include "base/random.h"

namespace isocost {
namespace {

constexpr std::array<std::pair<PipelinePolicy, std::string_view>, 4> kPolicies = {
    {{PipelinePolicy::kInOrder, "in-order"},
     {PipelinePolicy::kTokens, "tokens"},
     {PipelinePolicy::kLpt, "lpt"},
     {PipelinePolicy::kCost, "cost"}}};

// Size of a microbatch at the ends, relative to one in the middle.
constexpr std::array<double, 6> kTapers = {1.0, 0.8, 0.6, 0.4, 0.2, 0.05};

Status check_bins(const PipelineModel& model, std::span<const SampleCost> samples,
                  const MicrobatchBins& bins) {
  if (bins.size() != model.slots()) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline plan: " + counted(bins.size(), "microbatch") + " for " +
                     std::to_string(model.slots()) + " slots");
  }
  for (const auto& bin : bins) {
    for (const std::uint32_t sample : bin) {
      if (sample >= samples.size()) {
        return Error(ErrorCode::kInvalidArgument,
                     "pipeline plan: there is no sample " + std::to_string(sample));
      }
    }
  }
  return {};
}

// Returns [samples × 2]: the seconds that a sample adds to the busiest stage of the encoder and of
// the LLM. Encoder seconds are scaled by the ratio of replicas.
std::vector<double> stage_costs(const PipelineModel& model, std::span<const SampleCost> samples) {
  const double llm_share = *std::max_element(model.llm.shares.begin(), model.llm.shares.end());
  const bool own = model.encoder.stages > 0;
  const auto& encoder_shares = own ? model.encoder.shares : model.encoder_on_llm;
  double encoder_share = encoder_shares.empty()
                             ? 0.0
                             : *std::max_element(encoder_shares.begin(), encoder_shares.end());
  if (own) {
    encoder_share *=
        static_cast<double>(model.llm.replicas) / static_cast<double>(model.encoder.replicas);
  }
  std::vector<double> costs;
  costs.reserve(2 * samples.size());
  for (const SampleCost& sample : samples) {
    costs.push_back(sample.encoder_s * encoder_share);
    costs.push_back(sample.llm_s * llm_share);
  }
  return costs;
}

std::vector<double> llm_tokens(std::span<const SampleCost> samples) {
  std::vector<double> tokens;
  tokens.reserve(samples.size());
  for (const SampleCost& sample : samples) tokens.push_back(sample.llm_units);
  return tokens;
}

// Divides by vector LPT over all microbatches, in random order.
MicrobatchBins lpt_bins_in_random_order(const PipelineModel& model,
                                        const std::vector<double>& costs, std::uint64_t seed) {
  std::vector<std::uint32_t> all(costs.size() / 2);
  std::iota(all.begin(), all.end(), 0U);
  MicrobatchBins bins = weighted_lpt(costs, all, std::vector<double>(model.slots(), 1.0), 1);
  Random random(seed);
  shuffle(std::span(bins), random);
  return bins;
}

// Divides balanced microbatches over replicas by LPT, so that replicas have similar totals, too.
// Each replica receives `microbatches` of them.
MicrobatchBins spread_over_replicas(const PipelineModel& model, const std::vector<double>& costs,
                                    const MicrobatchBins& bins) {
  std::vector<double> sums(2 * bins.size(), 0.0);
  for (std::size_t b = 0; b < bins.size(); ++b) {
    for (const std::size_t sample : bins[b]) {
      sums[2 * b] += costs[2 * sample];
      sums[2 * b + 1] += costs[2 * sample + 1];
    }
  }
  std::vector<std::uint32_t> all(bins.size());
  std::iota(all.begin(), all.end(), 0U);
  const MicrobatchBins replicas =
      weighted_lpt(sums, all, std::vector<double>(model.llm.replicas, 1.0), model.microbatches);
  MicrobatchBins out;
  for (const auto& replica : replicas) {
    for (const std::uint32_t bin : replica) out.push_back(bins[bin]);
  }
  return out;
}

// Divides for replicas with different slowdowns: samples over replicas by their throughput, then
// each replica's samples over its microbatches. Returns nothing if a replica would receive fewer
// samples than microbatches.
std::optional<MicrobatchBins> spread_by_slowdown(const PipelineModel& model,
                                                 const std::vector<double>& costs) {
  std::vector<std::uint32_t> all(costs.size() / 2);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<double> weights;
  for (const double slowdown : model.llm.replica_slowdowns()) weights.push_back(1 / slowdown);
  MicrobatchBins out;
  for (const auto& replica : weighted_lpt(costs, all, weights, 1)) {
    if (replica.size() < model.microbatches) return std::nullopt;
    for (auto& bin :
         weighted_lpt(costs, replica, std::vector<double>(model.microbatches, 1.0), 1)) {
      out.push_back(std::move(bin));
    }
  }
  return out;
}

MicrobatchBins start_bins(const PipelineModel& model, const std::vector<double>& costs,
                          const MicrobatchBins& balanced) {
  if (model.llm.slowdowns.empty()) return spread_over_replicas(model, costs, balanced);
  return spread_by_slowdown(model, costs).value_or(balanced);
}

/// Searches the groups of a step, first one by one and then against each other.
class StepSearch {
 public:
  StepSearch(const PipelineGroups& groups, std::span<const SampleCost> samples,
             const MicrobatchBins& bins, const PipelineSearchOptions& options)
      : groups_(groups), options_(options), random_(options.seed) {
    for (std::size_t g = 0; g < groups.count(); ++g) {
      MicrobatchBins own(groups.slots());
      for (std::size_t p = 0; p < own.size(); ++p) own[p] = bins[groups.global_slot(g, p)];
      searches_.emplace_back(groups, g, samples, std::move(own), options.caps);
    }
  }

  void order_by_size(const std::vector<double>& costs) {
    for (GroupSearch& search : searches_) {
      search.offer(small_at_the_ends(costs, search.bins(), groups_.model().microbatches));
    }
  }

  void improve(bool move_samples) {
    const std::int64_t each = options_.evaluations / static_cast<std::int64_t>(searches_.size());
    for (GroupSearch& search : searches_) {
      search.improve(each, move_samples, random_);
    }
  }

  // Searches the division as well as the order.
  void refine(const std::vector<double>& costs) {
    offer_tapers(costs);
    improve(true);
    exchange();
  }

  PipelinePlan plan(double bound) const {
    PipelinePlan plan;
    plan.lower_bound_s = bound;
    plan.bins.resize(searches_.size() * groups_.slots());
    for (std::size_t g = 0; g < searches_.size(); ++g) {
      for (std::size_t p = 0; p < groups_.slots(); ++p) {
        plan.bins[groups_.global_slot(g, p)] = searches_[g].bins()[p];
      }
      plan.step_s = std::max(plan.step_s, searches_[g].score().step_s);
      plan.fits = plan.fits && searches_[g].score().excess_bytes == 0;
    }
    for (auto& bin : plan.bins) std::sort(bin.begin(), bin.end());
    return plan;
  }

 private:
  void offer_tapers(const std::vector<double>& costs) {
    const PipelineModel& model = groups_.model();
    const std::size_t ramp = model.encoder.stages + model.llm.stages;
    for (GroupSearch& search : searches_) {
      const MicrobatchBins start = search.bins();
      for (const double taper : kTapers) {
        search.offer(tapered_bins(costs, start, model.microbatches, ramp, taper));
      }
    }
  }

  void exchange() {
    for (std::int64_t i = 0; searches_.size() > 1 && i < options_.exchanges; ++i) {
      exchange_once();
    }
  }

  std::size_t slowest() const {
    return static_cast<std::size_t>(
        std::max_element(
            searches_.begin(), searches_.end(),
            [](const GroupSearch& a, const GroupSearch& b) { return a.score() < b.score(); }) -
        searches_.begin());
  }

  // Swaps or moves one sample from the slowest group. The change is kept if the slower of the two
  // groups becomes faster.
  void exchange_once() {
    const std::size_t from = slowest();
    const std::size_t to = (from + 1 + random_.below(searches_.size() - 1)) % searches_.size();
    GroupSearch& slow = searches_[from];
    GroupSearch& other = searches_[to];
    const std::size_t a = random_.below(groups_.slots());
    const std::size_t b = random_.below(groups_.slots());
    const std::vector<std::uint32_t> before_a = slow.bins()[a];
    const std::vector<std::uint32_t> before_b = other.bins()[b];
    std::vector<std::uint32_t> after_a = before_a;
    std::vector<std::uint32_t> after_b = before_b;
    const std::size_t i = random_.below(after_a.size());
    if (after_a.size() > 1 && random_.below(2) == 0) {
      after_b.push_back(after_a[i]);
      after_a.erase(after_a.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      std::swap(after_a[i], after_b[random_.below(after_b.size())]);
    }
    const StepScore worst = slow.score();
    if (slow.replace(a, std::move(after_a)) < worst &&
        other.replace(b, std::move(after_b)) < worst) {
      return;
    }
    slow.replace(a, before_a);
    other.replace(b, before_b);
  }

  const PipelineGroups& groups_;
  PipelineSearchOptions options_;
  Random random_;
  std::vector<GroupSearch> searches_;
};

// Returns the plan that `search`, a function of a StepSearch, makes of the division `bins`.
template <typename Search>
Result<PipelinePlan> search_from(const PipelineModel& model, std::span<const SampleCost> samples,
                                 const MicrobatchBins& bins, const PipelineSearchOptions& options,
                                 Search search) {
  ISOCOST_ASSIGN(const PipelineGroups groups, PipelineGroups::create(model));
  ISOCOST_TRY(check_bins(model, samples, bins));
  StepSearch step(groups, samples, bins, options);
  search(step);
  return step.plan(pipeline_bound(model, samples));
}

}  // namespace

std::string_view policy_name(PipelinePolicy policy) {
  return kPolicies.at(static_cast<std::size_t>(policy)).second;
}

std::optional<PipelinePolicy> policy_from_name(std::string_view name) {
  for (const auto& [policy, known] : kPolicies) {
    if (known == name) return policy;
  }
  return std::nullopt;
}

BalanceProblem pipeline_problem(const PipelineModel& model, std::span<const SampleCost> samples) {
  return {.dimensions = 2,
          .costs = stage_costs(model, samples),
          .ranks = model.llm.replicas,
          .microbatches = model.microbatches,
          .rank_slowdowns = model.llm.replica_slowdowns(),
          .objective = Objective::kLargestMicrobatch};
}

Result<PipelinePlan> order_microbatches(const PipelineModel& model,
                                        std::span<const SampleCost> samples,
                                        const MicrobatchBins& bins,
                                        const PipelineSearchOptions& options) {
  return search_from(model, samples, bins, options, [&](StepSearch& search) {
    search.order_by_size(stage_costs(model, samples));
    search.improve(false);
  });
}

Result<PipelinePlan> evaluate_microbatches(const PipelineModel& model,
                                           std::span<const SampleCost> samples,
                                           const MicrobatchBins& bins,
                                           const PipelineSearchOptions& options) {
  return search_from(model, samples, bins, options, [](StepSearch&) {});
}

Result<PipelinePlan> refine_pipeline(const PipelineModel& model,
                                     std::span<const SampleCost> samples,
                                     const MicrobatchBins& bins,
                                     const PipelineSearchOptions& options) {
  const auto empty =
      std::find_if(bins.begin(), bins.end(), [](const auto& b) { return b.empty(); });
  if (empty != bins.end()) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline plan: microbatch " + std::to_string(empty - bins.begin()) + " is empty");
  }
  return search_from(model, samples, bins, options,
                     [&](StepSearch& search) { search.refine(stage_costs(model, samples)); });
}

Result<PipelinePlan> plan_pipeline(const PipelineModel& model, std::span<const SampleCost> samples,
                                   PipelinePolicy policy, const PipelineSearchOptions& options) {
  ISOCOST_ASSIGN(const PipelineGroups groups, PipelineGroups::create(model));
  const std::vector<double> costs = stage_costs(model, samples);
  const double bound = pipeline_bound(model, samples);
  const BalanceProblem problem = pipeline_problem(model, samples);
  if (policy == PipelinePolicy::kInOrder) {
    ISOCOST_ASSIGN(const BalanceResult dealt, deal_in_order(problem));
    return StepSearch(groups, samples, dealt.bins, options).plan(bound);
  }
  if (policy == PipelinePolicy::kTokens) {
    ISOCOST_ASSIGN(const BalanceResult divided, lpt_by_tokens(problem, llm_tokens(samples)));
    return StepSearch(groups, samples, divided.bins, options).plan(bound);
  }
  ISOCOST_TRY(validate(problem));
  PipelinePlan lpt_plan =
      StepSearch(groups, samples, lpt_bins_in_random_order(model, costs, options.seed), options)
          .plan(bound);
  if (policy == PipelinePolicy::kLpt) return lpt_plan;
  // Small problems are not solved exactly, since the search below changes the division anyway.
  ISOCOST_ASSIGN(const BalanceResult balanced, balance(problem, {.exact_items = 0}));
  StepSearch search(groups, samples, start_bins(model, costs, balanced.bins), options);
  search.order_by_size(costs);
  search.refine(costs);
  PipelinePlan plan = search.plan(bound);
  const bool keeps_lpt = lpt_plan.fits != plan.fits ? lpt_plan.fits : lpt_plan.step_s < plan.step_s;
  return keeps_lpt ? lpt_plan : plan;
}

namespace {

// Returns the sum of the batches' simulated steps, planned without local search.
Result<double> steps_seconds(const PipelineModel& model, std::span<const SampleCost> window,
                             const std::vector<std::vector<std::uint32_t>>& batches) {
  double seconds = 0;
  std::vector<SampleCost> samples;
  for (const auto& batch : batches) {
    samples.clear();
    for (const std::uint32_t item : batch) samples.push_back(window[item]);
    ISOCOST_ASSIGN(const PipelinePlan plan, plan_pipeline(model, samples, PipelinePolicy::kCost,
                                                          {.evaluations = 0, .exchanges = 0}));
    seconds += plan.step_s;
  }
  return seconds;
}

std::vector<std::vector<std::uint32_t>> as_drawn(const std::vector<std::size_t>& sizes) {
  std::vector<std::vector<std::uint32_t>> batches;
  std::uint32_t next = 0;
  for (const std::size_t size : sizes) {
    auto& batch = batches.emplace_back(size);
    std::iota(batch.begin(), batch.end(), next);
    next += static_cast<std::uint32_t>(size);
  }
  return batches;
}

}  // namespace

Result<Composition> compose_pipeline_batches(const PipelineModel& model,
                                             std::span<const SampleCost> window,
                                             const std::vector<std::size_t>& batch_sizes,
                                             std::vector<Resource> resources,
                                             std::vector<std::int64_t> sizes) {
  BalanceProblem problem = pipeline_problem(model, window);
  problem.resources = std::move(resources);
  problem.sizes = std::move(sizes);
  ISOCOST_ASSIGN(Composition composition, compose_batches(problem, batch_sizes));
  Composition drawn{.batches = as_drawn(batch_sizes)};
  ISOCOST_ASSIGN(drawn.seconds_before, steps_seconds(model, window, drawn.batches));
  drawn.seconds_after = drawn.seconds_before;
  if (composition.moved == 0) return drawn;
  composition.seconds_before = drawn.seconds_before;
  ISOCOST_ASSIGN(composition.seconds_after, steps_seconds(model, window, composition.batches));
  return composition.seconds_after < drawn.seconds_after ? composition : drawn;
}

}  // namespace isocost
