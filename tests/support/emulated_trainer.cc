#include "tests/support/emulated_trainer.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "balancer/partition/balance.h"

namespace isocost {
namespace {

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return least +
         static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
}

void add_images(Load& load, Random& random, std::int64_t count, std::int64_t least,
                std::int64_t most) {
  for (std::int64_t i = 0; i < count; ++i) {
    load[CostModule::kVision].add_sequence(4 * between(random, least / 4, most / 4));
  }
}

// A picture with a caption, a document of some pages, a video, speech, or text.
Load draw_sample(Random& random) {
  Load load;
  std::int64_t text = 0;
  switch (random.below(6)) {
    case 0:
    case 1:
      add_images(load, random, 1, 200, 1400);
      text = between(random, 20, 150);
      break;
    case 2:
      add_images(load, random, between(random, 1, 3), 1500, 5000);
      text = between(random, 200, 900);
      break;
    case 3:
      add_images(load, random, between(random, 4, 24), 180, 260);
      text = between(random, 30, 200);
      break;
    case 4:
      load[CostModule::kAudio].add_sequence(between(random, 80, 1500));
      text = between(random, 20, 200);
      break;
    default:
      text = between(random, 100, 3000);
  }
  load.label_tokens = text;
  load[CostModule::kLlm].add_sequence(load[CostModule::kVision].units / 4 +
                                      load[CostModule::kAudio].units / 2 + text);
  return load;
}

}  // namespace

double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

HiddenCost cost_of(const CostProfile& profile) {
  HiddenCost hidden;
  hidden.seconds = [profile](CostModule module, std::span<const Load> samples, std::int64_t) {
    ModuleLoad load;
    for (const Load& sample : samples) load += sample[module];
    return predict(profile.modules.at(static_cast<std::size_t>(module)).coefficients, load).count();
  };
  return hidden;
}

EmulatedTrainer::EmulatedTrainer(HiddenCost hidden, const EmulationOptions& options)
    : hidden_(std::move(hidden)), options_(options), noise_(options.seed + 0x9000) {}

std::vector<Load> EmulatedTrainer::draw(std::int64_t samples, std::uint64_t seed) const {
  Random random(seed);
  std::vector<Load> loads;
  for (std::int64_t i = 0; i < samples; ++i) loads.push_back(draw_sample(random));
  return loads;
}

EmulatedTrainer::Plan EmulatedTrainer::lay_out(const std::vector<double>& costs,
                                               const std::vector<double>& slowdowns) const {
  BalanceProblem problem;
  problem.dimensions = kModules;
  problem.costs = costs;
  problem.ranks = static_cast<std::size_t>(options_.ranks);
  problem.microbatches = static_cast<std::size_t>(options_.microbatches);
  problem.objective = Objective::kSlowestRank;
  problem.rank_slowdowns = slowdowns;
  auto balanced = balance(problem, {});
  if (!balanced) std::abort();  // the emulation itself is broken
  return std::move(balanced->bins);
}

EmulatedTrainer::Planned EmulatedTrainer::plan_next(const CostModel& model) {
  Planned planned;
  planned.samples = draw(options_.global_batch_size,
                         options_.seed * 1'000'003 + static_cast<std::uint64_t>(planned_steps_++));
  std::vector<double> costs;
  for (const Load& sample : planned.samples) {
    const ModuleSeconds seconds = model.predict_sample(sample);
    costs.insert(costs.end(), seconds.begin(), seconds.end());
  }
  std::vector<double> slowdowns(static_cast<std::size_t>(options_.ranks), 1);
  const auto learned = model.rank_slowdowns();
  std::copy_n(learned.begin(), std::min(learned.size(), slowdowns.size()), slowdowns.begin());
  planned.plan = lay_out(costs, slowdowns);
  std::vector<bool> seen(planned.samples.size(), false);
  for (const auto& bin : planned.plan) {
    for (const std::uint32_t sample : bin) {
      if (seen[sample]) std::abort();  // the emulation itself is broken
      seen[sample] = true;
    }
  }
  if (std::count(seen.begin(), seen.end(), true) != options_.global_batch_size) std::abort();
  planned.measured = options_.measures_all || measured_steps_.next(model.measuring_stride());
  return planned;
}

std::vector<Load> EmulatedTrainer::samples_of(const Planned& planned, std::size_t bin) const {
  std::vector<Load> samples;
  for (const std::uint32_t sample : planned.plan[bin]) samples.push_back(planned.samples[sample]);
  return samples;
}

double EmulatedTrainer::slowest_rank(const Planned& planned, std::int64_t step) const {
  double slowest = 0;
  for (std::int32_t rank = 0; rank < options_.ranks; ++rank) {
    double seconds = 0;
    for (std::int32_t m = 0; m < options_.microbatches; ++m) {
      const auto samples =
          samples_of(planned, static_cast<std::size_t>(rank * options_.microbatches + m));
      for (std::size_t i = 0; i < kModules; ++i) {
        seconds += hidden_.seconds(static_cast<CostModule>(i), samples, step);
      }
    }
    slowest = std::max(slowest, seconds * hidden_.slowdown(rank, step));
  }
  return slowest;
}

// The true cost of a sample is what it adds to a microbatch that holds others: the seconds of the
// sample twice, less those of it once.
double EmulatedTrainer::oracle(const std::vector<Load>& samples, std::int64_t step) const {
  Planned planned{samples, {}};
  std::vector<double> costs;
  for (const Load& sample : samples) {
    const Load twice[] = {sample, sample};
    for (std::size_t i = 0; i < kModules; ++i) {
      const auto module = static_cast<CostModule>(i);
      costs.push_back(hidden_.seconds(module, twice, step) -
                      hidden_.seconds(module, std::span(twice).first(1), step));
    }
  }
  std::vector<double> slowdowns;
  for (std::int32_t rank = 0; rank < options_.ranks; ++rank) {
    slowdowns.push_back(hidden_.slowdown(rank, step));
  }
  planned.plan = lay_out(costs, slowdowns);
  return slowest_rank(planned, step);
}

EmulatedStep EmulatedTrainer::run_step(CostModel& model) {
  while (planned_steps_ <= step_ + options_.plan_ahead) ahead_.push_back(plan_next(model));
  const Planned planned = std::move(ahead_.front());
  ahead_.erase(ahead_.begin());

  EmulatedStep result;
  result.step = step_;
  result.seconds = slowest_rank(planned, step_);
  result.oracle_seconds = oracle(planned.samples, step_);
  result.rank_profile_s.assign(static_cast<std::size_t>(options_.ranks), 0);
  result.measured = planned.measured;
  for (std::size_t bin = 0; bin < planned.plan.size(); ++bin) {
    const std::vector<Load> samples = samples_of(planned, bin);
    if (samples.empty()) continue;
    Measurement& measurement = result.measurements.emplace_back();
    measurement.rank = static_cast<std::int32_t>(bin) / options_.microbatches;
    measurement.step = static_cast<std::uint64_t>(step_);
    for (const Load& sample : samples) measurement.load += sample;
    const double hiccup = noise_.uniform() < options_.outliers ? 10 : 1;
    for (std::size_t i = 0; i < kModules; ++i) {
      const double exact = hidden_.seconds(static_cast<CostModule>(i), samples, step_) *
                           hidden_.slowdown(measurement.rank, step_);
      measurement.seconds.at(i) =
          exact > 0 ? exact * hiccup * (1 + options_.noise * normal(noise_)) : -1;
    }
    result.shapes.push_back(model.shape_of(samples));
    for (const BucketSeconds& part : result.shapes.back()) {
      result.rank_profile_s[static_cast<std::size_t>(measurement.rank)] += part.seconds;
    }
    measurement.shape = result.shapes.back();
    double sum = 0;
    for (const double seconds : measurement.seconds) sum += std::max(seconds, 0.0);
    measurement.measuring_s = options_.measuring * sum;
    if (!planned.measured) continue;
    if (!model.observe(measurement)) std::abort();
  }
  if (!planned.measured)
    model.pass(static_cast<std::uint64_t>(std::max<std::int64_t>(step_ - 1, 0)));
  model.update();
  ++step_;
  return result;
}

}  // namespace isocost
