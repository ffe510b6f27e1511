#include "bench/paper/correction_study.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/paper/layout_steps.h"
#include "costmodel/cost_model.h"

namespace isocost::paper {
namespace {

std::int64_t tokens_of(const Load& load) { return load[CostModule::kLlm].units; }

// Returns the tokens from which on a sample is among this share of the longest.
std::int64_t least_tokens(std::span<const Load> loads, double share) {
  std::vector<std::int64_t> lengths;
  for (const Load& load : loads) lengths.push_back(tokens_of(load));
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  const auto count = static_cast<std::size_t>(share * static_cast<double>(lengths.size()));
  return count == 0 ? lengths.front() + 1 : lengths[count - 1];
}

SampleCost cost_of(const Load& load, const ModuleSeconds& seconds) {
  return {.encoder_s = seconds[0] + seconds[1],
          .llm_s = seconds[2],
          .encoder_units =
              static_cast<double>(load[CostModule::kVision].units + load[CostModule::kAudio].units),
          .llm_units = static_cast<double>(tokens_of(load))};
}

// Returns options of a cost model whose gate closes below this share of the step.
CostModel::Options gated_at(double overhead) {
  CostModel::Options options;
  options.correction.least_gain = overhead;
  return options;
}

/// One run, step by step.
class Run {
 public:
  Run(const JobModel& job, std::span<const Load> loads, const Anomalies& anomalies,
      const CorrectionRun& run, LayoutSteps steps)
      : job_(job),
        loads_(loads),
        anomalies_(anomalies),
        run_(run),
        steps_(std::move(steps)),
        least_tokens_(least_tokens(loads, anomalies.share)),
        profile_(job.profile, {.correct = false}),
        learning_(job.profile, gated_at(run.overhead)),
        random_(run.seed) {}

  Result<CorrectionResult> all() {
    CorrectionResult result;
    const std::size_t half = run_.steps / 2;
    for (std::size_t step = 0; step < run_.steps; ++step) {
      const std::vector<Load> batch = draw_batch();
      learning_.update();
      ISOCOST_ASSIGN(const MicrobatchBins bins, plan(batch, learning_, step));
      ISOCOST_ASSIGN(const MicrobatchBins blind, plan(batch, profile_, step));
      const std::vector<SampleCost> actual = costs(batch, profile_, true);
      ISOCOST_ASSIGN(const Step corrected, steps_.given(actual, bins));
      ISOCOST_ASSIGN(const Step uncorrected, steps_.given(actual, blind));
      ISOCOST_TRY(measure(batch, bins, step));
      if (step < half) continue;
      result.corrected_s += corrected.seconds / static_cast<double>(run_.steps - half);
      result.uncorrected_s += uncorrected.seconds / static_cast<double>(run_.steps - half);
    }
    learning_.update();
    result.open = learning_.correction().on;
    result.gain = learning_.correction().gain;
    return result;
  }

 private:
  std::vector<Load> draw_batch() {
    std::vector<Load> batch;
    for (std::size_t i = 0; i < run_.size; ++i)
      batch.push_back(loads_[random_.below(loads_.size())]);
    return batch;
  }

  double factor(const Load& load) const {
    return tokens_of(load) >= least_tokens_ ? anomalies_.factor : 1;
  }

  // Returns costs as a model predicts them, or as they are with the anomalies.
  std::vector<SampleCost> costs(const std::vector<Load>& batch, const CostModel& model,
                                bool anomalous) const {
    std::vector<SampleCost> costs;
    for (const Load& load : batch) {
      costs.push_back(cost_of(load, model.predict_sample(load)));
      if (anomalous) costs.back().llm_s *= factor(load);
    }
    return costs;
  }

  Result<MicrobatchBins> plan(const std::vector<Load>& batch, const CostModel& model,
                              std::size_t step) const {
    return steps_.coupled(costs(batch, model, false), run_.evaluations, run_.seed + step);
  }

  // Reports every microbatch's seconds, as trainers do.
  Status measure(const std::vector<Load>& batch, const MicrobatchBins& bins, std::size_t step) {
    const std::size_t microbatches = steps_.model().microbatches;
    for (std::size_t b = 0; b < bins.size(); ++b) {
      std::vector<Load> samples;
      Measurement measurement;
      measurement.rank = static_cast<std::int32_t>(b / microbatches);
      measurement.step = step;
      for (const std::uint32_t i : bins[b]) {
        samples.push_back(batch[i]);
        measurement.load += batch[i];
        const ModuleSeconds seconds = profile_.predict_sample(batch[i]);
        for (std::size_t m = 0; m < kModules; ++m) measurement.seconds.at(m) += seconds.at(m);
        measurement.seconds[2] += seconds[2] * (factor(batch[i]) - 1);
      }
      for (std::size_t m = 0; m < kModules; ++m) {
        if (measurement.load.modules.at(m).units == 0) continue;
        measurement.seconds.at(m) += job_.profile.modules.at(m).coefficients.per_microbatch;
      }
      const MicrobatchShape shape = learning_.shape_of(samples);
      measurement.shape = shape;
      ISOCOST_TRY(learning_.observe(measurement));
    }
    return {};
  }

  const JobModel& job_;
  std::span<const Load> loads_;
  const Anomalies anomalies_;
  const CorrectionRun run_;
  const LayoutSteps steps_;
  const std::int64_t least_tokens_;
  const CostModel profile_;
  CostModel learning_;
  Random random_;
};

}  // namespace

Result<CorrectionResult> simulate_correction(const JobModel& job, const Layout& layout,
                                             std::span<const Load> loads,
                                             const Anomalies& anomalies, const CorrectionRun& run) {
  const Batches first = draw(loads, job.profile, 4, run.size, run.seed);
  ISOCOST_ASSIGN(LayoutSteps steps, LayoutSteps::create(job, layout, mean_of(first)));
  return Run(job, loads, anomalies, run, std::move(steps)).all();
}

}  // namespace isocost::paper
