#include "loader/online_model.h"

#include <cstddef>
#include <utility>

namespace isocost {
namespace {

// Beyond what ranks report between two plans.
constexpr std::size_t kMostObservations = 65'536;

}  // namespace

bool OnlineModel::report(const Measurement& measurement, std::shared_ptr<const SealedStep> step) {
  const std::lock_guard lock(reported_mutex_);
  if (reported_.size() >= kMostObservations) return false;
  reported_.push_back({measurement, std::move(step)});
  return true;
}

void OnlineModel::observe_reported() {
  std::vector<Observation> reported;
  {
    const std::lock_guard lock(reported_mutex_);
    reported.swap(reported_);
  }
  for (const Observation& one : reported) {
    if (one.step->plan.profile != profiles_) continue;
    const Status observed = model_.observe(one.measurement);
    if (observed) continue;
    // Named ever more rarely: a trainer that errs once errs on every microbatch.
    const std::int64_t rejected = rejected_before_ + model_.rejected();
    if ((rejected & (rejected - 1)) != 0) continue;
    log(log_, LogLevel::kWarning,
        "rank " + std::to_string(one.measurement.rank) + ": " + observed.error().message() +
            "; refused, as " + std::to_string(rejected) + " so far");
  }
}

Result<StepPlan> OnlineModel::plan(const std::function<Result<StepPlan>(const CostModel&)>& plan) {
  const std::lock_guard lock(model_mutex_);
  observe_reported();
  model_.update();
  Result<StepPlan> planned = plan(model_);
  if (planned) planned->profile = profiles_;
  return planned;
}

void OnlineModel::adopt(const CostProfile& profile) {
  const std::lock_guard lock(model_mutex_);
  observe_reported();
  measured_before_ += model_.measurements();
  rejected_before_ += model_.rejected();
  model_ = CostModel(profile, options_);
  profiles_ += 1;
}

OnlineModel::Progress OnlineModel::progress() {
  const std::lock_guard lock(model_mutex_);
  observe_reported();
  return {.correction = model_.correction(),
          .mape = model_.mape(),
          .measurements = measured_before_ + model_.measurements(),
          .rejected = rejected_before_ + model_.rejected(),
          .profiles = profiles_};
}

bool OnlineModel::untaught() {
  const std::lock_guard lock(model_mutex_);
  return !restored_ && measured_before_ + model_.measurements() == 0;
}

std::string OnlineModel::save_state() {
  const std::lock_guard lock(model_mutex_);
  return model_.save_state();
}

Status OnlineModel::restore_state(std::string_view state) {
  const std::lock_guard lock(model_mutex_);
  ISOCOST_TRY(model_.restore_state(state));
  restored_ = true;
  return {};
}

}  // namespace isocost
