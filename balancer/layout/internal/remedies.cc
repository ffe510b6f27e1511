#include "balancer/layout/internal/remedies.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace isocost {
namespace {

constexpr std::size_t kMostGpus = 2048;  // beyond it, an enumeration takes many seconds
constexpr int kDoublings = 4;

// Flags, and the search with them.
struct Remedy {
  std::string flags;
  LayoutSearchOptions options;
};

/// Finds remedies of one search.
class Remedies {
 public:
  Remedies(const JobModel& job, const BatchSummary& batch, const LayoutSearchOptions& options,
           const LayoutSearchContext& context)
      : job_(job), batch_(batch), options_(options) {
    quiet_.stop = context.stop;
  }

  std::string text() const {
    std::vector<std::string> fitting;
    std::vector<Remedy> alone;
    if (const auto remedy = recomputed(options_)) alone.push_back(*remedy);
    if (const auto remedy = sharded(options_)) alone.push_back(*remedy);
    if (const auto remedy = with_parts_of_optimizer(options_)) alone.push_back(*remedy);
    for (const Remedy& remedy : alone) {
      if (fits(remedy.options)) fitting.push_back(remedy.flags);
    }
    if (const auto gpus = fewest_gpus(options_)) fitting.push_back(gpus_flag(*gpus));
    if (fitting.empty()) fitting = together(alone);
    if (fitting.empty()) {
      return "use more memory per GPU, freeze a module or train adapters (--freeze, --adapters), "
             "or shorten the longest samples";
    }
    std::string text = "a layout may fit with ";
    for (std::size_t i = 0; i < fitting.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == fitting.size() ? " or " : ", ") + fitting[i];
    }
    return text;
  }

 private:
  static std::string gpus_flag(std::size_t gpus) { return "--gpus " + std::to_string(gpus); }

  static std::optional<Remedy> recomputed(LayoutSearchOptions options) {
    if (options.most_recompute == Recompute::kFull) return std::nullopt;
    options.most_recompute = Recompute::kFull;
    return Remedy{"--recompute auto", options};
  }

  // PyTorch's replicas hold parts of the optimizer only if they hold parts of the weights.
  static std::optional<Remedy> with_parts_of_optimizer(LayoutSearchOptions options) {
    if (!options.replicated_optimizer) return std::nullopt;
    options.replicated_optimizer = false;
    if (options.framework == Framework::kFsdp2) options.shard_weights = true;
    return Remedy{"no --replicate-optimizer", options};
  }

  static std::optional<Remedy> sharded(LayoutSearchOptions options) {
    const bool possible = options.framework != Framework::kMegatron;
    if (options.shard_weights || options.replicated_optimizer || !possible) return std::nullopt;
    options.shard_weights = true;
    return Remedy{"--shard-weights", options};
  }

  // Returns the remedies that fit only together: both, or one with more GPUs.
  std::vector<std::string> together(const std::vector<Remedy>& alone) const {
    std::vector<std::string> fitting;
    if (alone.size() == 2) {
      const auto both = sharded(alone.front().options);
      if (both && fits(both->options)) {
        fitting.push_back(alone.front().flags + " " + both->flags);
      }
    }
    for (const Remedy& remedy : alone) {
      if (const auto gpus = fewest_gpus(remedy.options)) {
        fitting.push_back(remedy.flags + " " + gpus_flag(*gpus));
      }
    }
    return fitting;
  }

  // Returns the fewest GPUs that fit, of twice as many, four times as many, and so on.
  std::optional<std::size_t> fewest_gpus(LayoutSearchOptions options) const {
    for (int i = 0; i < kDoublings && 2 * options.gpus <= kMostGpus; ++i) {
      options.gpus *= 2;
      if (fits(options)) return options.gpus;
    }
    return std::nullopt;
  }

  bool fits(const LayoutSearchOptions& options) const {
    const auto space = enumerate_layouts(job_, batch_, options, quiet_);
    return space && !space->candidates.empty();
  }

  const JobModel& job_;
  const BatchSummary& batch_;
  const LayoutSearchOptions& options_;
  LayoutSearchContext quiet_;
};

}  // namespace

std::string what_fits(const JobModel& job, const BatchSummary& batch,
                      const LayoutSearchOptions& options, const LayoutSearchContext& context) {
  return Remedies(job, batch, options, context).text();
}

}  // namespace isocost
