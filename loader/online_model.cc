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
    // A measurement that the model refuses is counted there.
    static_cast<void>(model_.observe(one.measurement));
  }
}

Result<StepPlan> OnlineModel::plan(const std::function<Result<StepPlan>(const CostModel&)>& plan) {
  const std::lock_guard lock(model_mutex_);
  observe_reported();
  model_.update();
  return plan(model_);
}

OnlineModel::Progress OnlineModel::progress() {
  const std::lock_guard lock(model_mutex_);
  observe_reported();
  return {.correction = model_.correction(),
          .mape = model_.mape(),
          .measurements = model_.measurements(),
          .rejected = model_.rejected()};
}

std::string OnlineModel::save_state() {
  const std::lock_guard lock(model_mutex_);
  return model_.save_state();
}

Status OnlineModel::restore_state(std::string_view state) {
  const std::lock_guard lock(model_mutex_);
  return model_.restore_state(state);
}

}  // namespace isocost
