#include "loader/node/internal/step_source.h"

#include <chrono>
#include <utility>
#include <vector>

#include "loader/node/internal/correction_file.h"
#include "loader/plan/planner.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kStepsBetweenSaves = 8;  // of what correction learned

}  // namespace

StepSource::StepSource(const NodeParts& parts)
    : parts_(parts),
      composer_({&parts.cursor, parts.dataset.get(), &parts.recipe, parts.layout.get()},
                parts.options.plan, parts.profile),
      fingerprint_(composer_.fingerprint()),
      model_(*parts.model),
      reprofiling_(parts.options.plan.reprofile, model_, parts.log) {}

void StepSource::offer(std::string cost_model_state) {
  if (cost_model_state.empty() || !parts_.options.plan.correct) return;
  const MutexLock lock(mutex_);
  offered_ = std::move(cost_model_state);
}

void StepSource::take_offered() {
  std::string cost_model_state;
  {
    const MutexLock lock(mutex_);
    cost_model_state.swap(offered_);
  }
  // Each rank of a job brings the same.
  if (cost_model_state.empty() || cost_model_state == taken_ || !model_.untaught()) return;
  taken_ = cost_model_state;
  const Status restored = model_.restore_state(cost_model_state);
  if (restored) return;
  const bool of_another = restored.error().code() == ErrorCode::kInvalidArgument;
  log(parts_.log, LogLevel::kWarning,
      "what the saved state holds of the cost model " +
          (of_another ? std::string("belongs to another profile")
                      : "cannot be read (" + restored.error().message() + ")") +
          "; learning starts anew");
}

Result<std::shared_ptr<SealedStep>> StepSource::seal(const Request& request) {
  auto sealed = std::make_shared<SealedStep>();
  sealed->epoch = request.epoch;
  sealed->step = request.step;
  ISOCOST_ASSIGN(const std::vector<SampleId> ids, composer_.batch(request.epoch, request.step));
  ISOCOST_ASSIGN(sealed->slots, request.decoder.decode_step(ids, request.stop));
  if (sealed->slots.empty()) return std::shared_ptr<SealedStep>();

  PlanInput input;
  for (const SampleSlot& slot : sealed->slots) {
    input.loads.push_back(slot.load);
    input.weights.push_back(slot.weight);
    input.ids.push_back(slot.id);
  }
  take_offered();
  reprofiling_.take_offered();
  const auto started = Clock::now();
  ISOCOST_ASSIGN(sealed->plan, model_.plan([&](const CostModel& model) {
    return plan_step(input, model, request.options.plan, parts_.layout.get());
  }));
  sealed->count_readers();
  sealed->plan_seconds = std::chrono::duration<double>(Clock::now() - started).count();
  sealed->profile_wanted = reprofiling_.ask();
  if (++sealed_ % kStepsBetweenSaves == 0 && parts_.options.plan.correct) {
    keep();
    sealed->cost_model_state = model_.save_state();
  }
  return sealed;
}

// A full disk is no reason to end training: what was learned is learned again.
void StepSource::keep() {
  if (!parts_.options.plan.correct) return;
  const Status saved = save_correction(model_, parts_.options.plan.correction_file);
  if (saved) return;
  log(parts_.log, LogLevel::kWarning,
      "correction_file: " + saved.error().message() + "; training goes on without it");
}

bool StepSource::continues(std::uint64_t other, std::uint64_t step) const {
  return composer_.continues(other, step);
}

}  // namespace isocost
