#include "loader/node/step_preview.h"

#include <cstddef>
#include <span>
#include <utility>

#include "base/counted.h"
#include "loader/dataset/sample_name.h"
#include "loader/node/decoding/sample_examiner.h"
#include "loader/node/decoding/step_sample.h"
#include "loader/node/internal/job_order.h"
#include "loader/node/internal/node_parts.h"
#include "loader/node/internal/step_source.h"
#include "loader/plan/step_plan.h"

namespace isocost {
namespace {

// Returns the options without the files that a node writes.
NodeOptions without_outputs(NodeOptions options) {
  options.bad_samples.file.clear();
  options.service.summary.clear();
  return options;
}

// Sets the places of the good samples, which `numbers` lists in the order of the plan's input. A
// repeat of weight 0 is no place.
void set_places(const StepPlan& plan, std::span<const std::size_t> numbers, PreviewedStep& step) {
  step.planned = true;
  for (std::size_t bin = 0; bin < plan.bins.size(); ++bin) {
    const PreviewedPlace place{static_cast<std::uint32_t>(bin / plan.microbatches),
                               static_cast<std::uint32_t>(bin % plan.microbatches)};
    for (const PlannedSample& planned : plan.bins[bin].samples) {
      auto& known = step.samples[numbers[planned.index]].place;
      if (!known || planned.weight != 0) known = place;
    }
  }
}

class NodePreview final : public StepPreview {
 public:
  explicit NodePreview(NodeParts parts)
      : parts_(std::move(parts)),
        source_(parts_),
        examiner_({parts_.dataset.get(),
                   &parts_.recipe,
                   parts_.options.decode.memory,
                   {},
                   parts_.layout.get(),
                   &parts_.limits}),
        model_(*parts_.options.cost_model.profile, {.correct = false}) {}

  const Dataset& dataset() const override { return *parts_.dataset; }
  const Mixture* mixture() const override {
    const JobOrder& order = source_.order();
    return order.mixture == nullptr ? nullptr : &order.mixture->mixture();
  }
  std::optional<std::uint64_t> steps(std::uint64_t epoch) const override {
    const JobOrder& order = source_.order();
    if (order.mixture != nullptr && !order.mixture->steps()) return std::nullopt;
    return order.cursor.steps(epoch);
  }
  Result<PreviewedStep> step(std::uint64_t epoch, std::uint64_t step) override;

 private:
  Status check_position(std::uint64_t epoch, std::uint64_t step) const;

  const NodeParts parts_;
  StepSource source_;
  const SampleExaminer examiner_;
  const CostModel model_;
};

Status NodePreview::check_position(std::uint64_t epoch, std::uint64_t step) const {
  const auto epochs = static_cast<std::uint64_t>(parts_.options.plan.epochs);
  if (epochs > 0 && epoch >= epochs) {
    return Error(ErrorCode::kInvalidArgument,
                 "epoch " + std::to_string(epoch) + ": there " + (epochs == 1 ? "is " : "are ") +
                     counted(epochs, "epoch") + ", from 0 on; set epochs for more");
  }
  const std::uint64_t steps = source_.order().cursor.steps(epoch);
  if (step < steps) return {};
  return Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step) + ": epoch " +
                                                std::to_string(epoch) + " has " +
                                                counted(steps, "step") + ", from 0 on");
}

Result<PreviewedStep> NodePreview::step(std::uint64_t epoch, std::uint64_t step) {
  ISOCOST_TRY(check_position(epoch, step));
  ISOCOST_ASSIGN(const std::span<const SampleId> ids, source_.samples(epoch, step));
  PreviewedStep preview;
  std::vector<StepSample> good;
  std::vector<std::size_t> numbers;  // of the good ones
  for (const SampleId id : ids) {
    StepSample sample;
    sample.id = id;
    PreviewedSample previewed{.id = id};
    previewed.name = sample_name(dataset().shard(id), dataset().key(id));
    ISOCOST_ASSIGN(const std::optional<BadSample> bad, examiner_.examine(sample));
    if (bad) {
      previewed.bad = bad->reason;
    } else {
      previewed.load = sample.load;
      previewed.seconds = model_.predict_sample(sample.load);
      numbers.push_back(preview.samples.size());
      good.push_back(std::move(sample));
    }
    preview.samples.push_back(std::move(previewed));
  }
  if (parts_.receivers() == 0 || good.empty()) return preview;
  ISOCOST_ASSIGN(const StepPlan plan, source_.plan(good));
  set_places(plan, numbers, preview);
  return preview;
}

}  // namespace

Result<std::unique_ptr<StepPreview>> StepPreview::open(NodeOptions options, ProgressSink progress,
                                                       const LogSink& log,
                                                       const std::stop_token& stop) {
  ISOCOST_ASSIGN(NodeParts parts, open_node_parts(without_outputs(std::move(options)),
                                                  std::move(progress), log, {}, stop));
  return std::make_unique<NodePreview>(std::move(parts));
}

}  // namespace isocost
