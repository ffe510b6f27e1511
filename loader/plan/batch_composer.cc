#include "loader/plan/batch_composer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

#include "balancer/partition/first_fit.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/fingerprint.h"
#include "base/load.h"
#include "loader/plan/microbatch_count.h"

namespace isocost {
namespace {

const CostModel::Options& uncorrected() {
  static const CostModel::Options options{.correct = false};
  return options;
}

std::uint32_t upper_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

std::uint32_t hash_of_drawn(std::uint64_t order, std::int64_t lookahead) {
  Fingerprint hash;
  hash.add(order);
  hash.add(lookahead);
  return std::max<std::uint32_t>(upper_half(hash.value()), 1);
}

std::uint32_t hash_of_composing(const PlanOptions& options, const Recipe& recipe,
                                const ServedLayout* layout, const CostProfile& starting) {
  Fingerprint hash;
  hash.add(options.ranks);
  hash.add(fixed_microbatches(options));
  MicrobatchLimits::add_to(hash, options);
  if (options.padded_multiple > 1) {
    hash.add(std::string_view("padded_multiple"));
    hash.add(options.padded_multiple);
  }
  hash.add(options.steps);
  hash.add(layout != nullptr ? layout->to_json() : std::string());
  hash.add(recipe.fingerprint());
  hash.add(starting.fingerprint());
  return upper_half(hash.value());
}

// Composes batches that each choose their number of microbatches. Returns them as drawn if the
// composed ones would need more microbatches.
Result<Composition> compose_within(BalanceProblem problem, const std::vector<std::size_t>& sizes) {
  BalanceProblem free =
      problem;  // without limits, since every batch chooses as many microbatches as it needs
  free.resources.clear();
  free.sizes.clear();
  ISOCOST_ASSIGN(Composition composition, compose_batches(free, sizes));
  if (composition.moved == 0) return composition;
  Composition drawn{.batches = {},
                    .seconds_before = composition.seconds_before,
                    .seconds_after = composition.seconds_before};
  std::uint32_t next = 0;
  for (const std::size_t size : sizes) {
    auto& batch = drawn.batches.emplace_back(size);
    std::iota(batch.begin(), batch.end(), next);
    next += static_cast<std::uint32_t>(size);
  }
  const auto microbatches = [&problem](const Composition& composed) {
    std::size_t sum = 0;
    for (const auto& batch : composed.batches) {
      sum += (bins_by_first_fit(problem, batch) + problem.ranks - 1) / problem.ranks;
    }
    return sum;
  };
  return microbatches(composition) <= microbatches(drawn) ? composition : drawn;
}

}  // namespace

bool draws_by(std::uint64_t fingerprint, std::uint64_t order, std::int64_t lookahead) {
  if (lookahead <= 1) return fingerprint == order;
  return upper_half(fingerprint) == hash_of_drawn(order, lookahead);
}

BatchComposer::BatchComposer(const Context& context, const PlanOptions& options,
                             const CostProfile& starting)
    : context_(context),
      options_(options),
      model_(starting, uncorrected()),
      order_(context.cursor->fingerprint(context.dataset->fingerprint())),
      drawn_(hash_of_drawn(order_, options.lookahead)),
      composed_(hash_of_composing(options, *context.recipe, context.layout, starting)) {}

void BatchComposer::draw_from(const Cursor& cursor) {
  context_.cursor = &cursor;
  window_ = {};
}

std::uint64_t BatchComposer::fingerprint() const {
  if (options_.lookahead <= 1) return order_;
  return std::uint64_t{drawn_} << 32 | composed_;
}

bool BatchComposer::continues(std::uint64_t other, std::uint64_t step) const {
  if (other == fingerprint()) return true;
  return options_.lookahead > 1 && upper_half(other) == drawn_ &&
         step % static_cast<std::uint64_t>(options_.lookahead) == 0;
}

Result<std::vector<SampleId>> BatchComposer::batch(std::uint64_t epoch, std::uint64_t step) {
  if (options_.lookahead <= 1) return context_.cursor->batch(epoch, step);
  const std::uint64_t first = step - step % static_cast<std::uint64_t>(options_.lookahead);
  if (window_.batches.empty() || window_.epoch != epoch || window_.first != first) {
    ISOCOST_ASSIGN(window_, compose(epoch, first));
  }
  const std::uint64_t index = step - first;
  return index < window_.batches.size() ? window_.batches[index] : std::vector<SampleId>();
}

// Returns the load of a sample; an empty one if the recipe refuses the sample, which decoding will
// then list as bad. Errors: those of Dataset::checked_shape.
Result<Load> BatchComposer::load_of(SampleId id) const {
  ISOCOST_ASSIGN(const SampleShape shape, context_.dataset->checked_shape(id));
  const auto load = context_.recipe->load(shape);
  const bool fits = load && (context_.limits == nullptr || context_.limits->holds(*load));
  return fits ? *load : Load{};
}

Result<Composition> BatchComposer::share_out(const std::vector<SampleId>& ids,
                                             const std::vector<std::size_t>& sizes) const {
  const bool pipelined = context_.layout != nullptr && context_.layout->pipelined();
  BalanceProblem problem;
  problem.dimensions = kModules;
  problem.ranks = static_cast<std::size_t>(options_.ranks);
  const std::int64_t fixed = fixed_microbatches(options_);
  const bool limited = context_.limits != nullptr && !context_.limits->empty();
  problem.microbatches = static_cast<std::size_t>(std::max<std::int64_t>(fixed, 1));
  if (limited) problem.resources = context_.limits->resources();
  problem.objective = Objective::kSlowestRank;
  std::vector<SampleCost> samples;
  for (const SampleId id : ids) {
    ISOCOST_ASSIGN(const Load load, load_of(id));
    const ModuleSeconds seconds = model_.predict_sample(load);
    problem.costs.insert(problem.costs.end(), seconds.begin(), seconds.end());
    if (limited) context_.limits->append_sizes(load, problem.sizes);
    if (pipelined) samples.push_back(context_.layout->price(seconds, load));
  }
  if (fixed == 0 && limited) return compose_within(std::move(problem), sizes);
  if (!pipelined) return compose_batches(problem, sizes);
  return compose_pipeline_batches(context_.layout->pipeline({}), samples, sizes,
                                  std::move(problem.resources), std::move(problem.sizes));
}

Result<BatchComposer::Window> BatchComposer::compose(std::uint64_t epoch,
                                                     std::uint64_t first) const {
  Window window{epoch, first, {}};
  const std::uint64_t end = std::min(context_.cursor->steps(epoch),
                                     first + static_cast<std::uint64_t>(options_.lookahead));

  std::vector<SampleId> ids;
  std::vector<std::size_t> sizes;
  for (std::uint64_t step = first; step < end; ++step) {
    window.batches.push_back(context_.cursor->batch(epoch, step));
    const std::vector<SampleId>& drawn = window.batches.back();
    if (drawn.size() < static_cast<std::size_t>(options_.global_batch_size)) continue;
    sizes.push_back(drawn.size());
    ids.insert(ids.end(), drawn.begin(), drawn.end());
  }
  if (sizes.size() < 2) return window;
  ISOCOST_ASSIGN(const Composition composition, share_out(ids, sizes));
  // Only an epoch's last batch is smaller, so the full batches come first.
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    std::transform(composition.batches[b].begin(), composition.batches[b].end(),
                   window.batches[b].begin(), [&ids](std::uint32_t item) { return ids[item]; });
  }
  return window;
}

}  // namespace isocost
