#include "bench/paper/uniform_layouts.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace isocost::paper {
namespace {

constexpr std::size_t kMostEncoderStages = 4;

struct Score {
  double seconds = std::numeric_limits<double>::infinity();
  bool fits = false;
};

// Layers of each stage, later stages taking the remainder.
std::vector<std::int64_t> even_cut(std::int64_t layers, std::size_t stages) {
  const auto n = static_cast<std::int64_t>(stages);
  std::vector<std::int64_t> cut;
  for (std::int64_t stage = 0; stage < n; ++stage) {
    cut.push_back(layers / n + (stage >= n - layers % n ? 1 : 0));
  }
  return cut;
}

// Both modules in one pipeline: the whole encoder on the first stage, beside an even share of the
// LLM.
Layout encoder_first(const JobModel& job, const ModuleDegrees& degrees) {
  Layout layout{.encoder_place = EncoderPlacement::kLlmRanks, .encoder = degrees, .llm = degrees};
  layout.layers.encoder.assign(degrees.pipeline, 0);
  layout.layers.encoder.front() = job.encoder.layers;
  layout.layers.llm = even_cut(job.llm.layers, degrees.pipeline);
  return layout;
}

// The numbers of microbatches to try: 1, 2, 3, 4, 6, 8, 12, … and one sample in each.
std::vector<std::size_t> microbatch_counts(std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t power = 1; power < most; power *= 2) {
    counts.push_back(power);
    if (power >= 2 && power + power / 2 < most) counts.push_back(power + power / 2);
  }
  counts.push_back(most);
  return counts;
}

class Trial {
 public:
  Trial(const JobModel& job, const Batches& batches)
      : job_(job), batches_(batches), mean_(mean_of(batches)) {}

  // Returns the mean step of random microbatches. A layout that the model does not allow does not
  // fit.
  Score score(const Layout& layout) {
    ++tried_;
    const auto steps = LayoutSteps::create(job_, layout, mean_);
    if (!steps) return {};
    double sum = 0;
    for (const auto& batch : batches_) {
      const auto step = steps->random(batch);
      if (!step || !steps->fits(*step)) return {};
      sum += step->seconds;
    }
    return {.seconds = sum / static_cast<double>(batches_.size()), .fits = true};
  }

  static void keep_faster(const Score& found, const Layout& layout, std::optional<Layout>& best,
                          double& best_s) {
    if (!found.fits || found.seconds >= best_s) return;
    best = layout;
    best_s = found.seconds;
  }

  std::size_t tried() const { return tried_; }

 private:
  const JobModel& job_;
  const Batches& batches_;
  SampleCost mean_;
  std::size_t tried_ = 0;
};

// Returns the layouts of these degrees: both modules in one pipeline, cut in two ways, or the
// encoder on stages of its own.
std::vector<Layout> layouts_of(const JobModel& job, const ModuleDegrees& degrees) {
  std::vector<Layout> layouts = {
      encoder_first(job, degrees),
      {.encoder_place = EncoderPlacement::kLlmRanks, .encoder = degrees, .llm = degrees}};
  for (std::size_t stages = 1; stages <= kMostEncoderStages && stages < degrees.pipeline;
       ++stages) {
    layouts.push_back({.encoder = {degrees.tensor, stages, degrees.data},
                       .llm = {degrees.tensor, degrees.pipeline - stages, degrees.data}});
  }
  return layouts;
}

}  // namespace

Result<UniformLayouts> uniform_layouts(const JobModel& job, std::size_t gpus,
                                       const Batches& batches) {
  UniformLayouts found;
  Trial trial(job, batches);
  const std::size_t samples = batches.front().size();
  const auto layers = static_cast<std::size_t>(job.llm.layers);
  double tuned_s = std::numeric_limits<double>::infinity();
  double parallel_s = tuned_s;
  double sharded_s = tuned_s;
  for (std::size_t tensor = 1; tensor <= job.cluster.gpus_per_node; tensor *= 2) {
    for (std::size_t pipeline = 1; pipeline <= layers; ++pipeline) {
      const std::size_t data = gpus / (tensor * pipeline);
      if (data == 0 || data > samples || data * tensor * pipeline != gpus) continue;
      const ModuleDegrees degrees{tensor, pipeline, data};
      if (!found.rule) {
        Layout rule = encoder_first(job, degrees);
        rule.microbatches = samples / data;
        if (trial.score(rule).fits) found.rule = rule;
      }
      for (Layout layout : layouts_of(job, degrees)) {
        for (const std::size_t microbatches : microbatch_counts(samples / data)) {
          layout.microbatches = microbatches;
          Trial::keep_faster(trial.score(layout), layout, found.tuned, tuned_s);
        }
      }
    }
  }
  for (const std::size_t microbatches : microbatch_counts(samples / gpus)) {
    if (microbatches == 0) continue;  // fewer samples than GPUs
    const Layout whole = whole_model(gpus, microbatches, 1);
    Trial::keep_faster(trial.score(whole), whole, found.data_parallel, parallel_s);
    const Layout sharded = whole_model(gpus, microbatches, gpus);
    Trial::keep_faster(trial.score(sharded), sharded, found.sharded, sharded_s);
  }
  found.tried = trial.tried();
  return found;
}

}  // namespace isocost::paper
