#include "loader/node/internal/online_model.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace isocost {
namespace {

// Beyond what ranks report between two plans.
constexpr std::size_t kMostObservations = 65'536;

constexpr std::string_view kMagic = "isocost learned 1 ";  // what a state begins with

}  // namespace

OnlineModel::OnlineModel(const CostProfile& profile, CostModel::Options options, LogSink log)
    : options_(std::move(options)),
      log_(std::move(log)),
      profile_(profile),
      started_from_(fmt::format("{:016x}", profile.fingerprint())),
      model_(profile, options_) {}

bool OnlineModel::report(const Measurement& measurement, std::shared_ptr<const SealedStep> step) {
  const MutexLock lock(reported_mutex_);
  if (reported_.size() >= kMostObservations) return false;
  reported_.push_back({measurement, std::move(step)});
  return true;
}

void OnlineModel::observe_reported() {
  std::vector<Observation> reported;
  {
    const MutexLock lock(reported_mutex_);
    reported.swap(reported_);
  }
  for (const Observation& one : reported) {
    if (one.step->plan.profile != generation_) continue;
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
  const MutexLock lock(model_mutex_);
  observe_reported();
  model_.update();
  Result<StepPlan> planned = plan(model_);
  if (planned) planned->profile = generation_;
  return planned;
}

void OnlineModel::begin_job() {
  const MutexLock lock(model_mutex_);
  observe_reported();
  model_.begin_job();
  generation_ += 1;
}

Status OnlineModel::adopt(std::string profile) {
  ISOCOST_ASSIGN(const CostProfile parsed, CostProfile::parse(profile));
  const MutexLock lock(model_mutex_);
  replace(CostModel(parsed, options_), std::move(profile));
  profiles_ += 1;
  return {};
}

void OnlineModel::replace(CostModel model, std::string profile) {
  observe_reported();
  measured_before_ += model_.measurements();
  rejected_before_ += model_.rejected();
  model_ = std::move(model);
  adopted_ = std::move(profile);
  generation_ += 1;
}

OnlineModel::Progress OnlineModel::progress() {
  const MutexLock lock(model_mutex_);
  observe_reported();
  return {.correction = model_.correction(),
          .mape = model_.mape(),
          .measurements = measured_before_ + model_.measurements(),
          .rejected = rejected_before_ + model_.rejected(),
          .profiles = profiles_};
}

bool OnlineModel::untaught() {
  const MutexLock lock(model_mutex_);
  return measured_before_ + model_.measurements() == 0;
}

// The magic; the profile that the node was started with, as 16 hexadecimal digits; the adopted
// one's JSON, which may be empty; a zero; CostModel's state.
std::string OnlineModel::save_state() {
  const MutexLock lock(model_mutex_);
  if (!restored_ && measured_before_ + model_.measurements() == 0) return {};
  return std::string(kMagic) + started_from_ + adopted_ + '\0' + model_.save_state();
}

Status OnlineModel::restore_state(std::string_view state) {
  if (!state.starts_with(kMagic)) return Error(ErrorCode::kCorrupt, "it is no saved state");
  state.remove_prefix(kMagic.size());
  if (!state.starts_with(started_from_)) {
    return Error(ErrorCode::kInvalidArgument, "it was learned by another profile");
  }
  state.remove_prefix(started_from_.size());
  const std::size_t end = state.find('\0');
  if (end == std::string_view::npos) return Error(ErrorCode::kCorrupt, "it is cut short");
  std::string adopted(state.substr(0, end));
  CostProfile profile = profile_;
  if (!adopted.empty()) {
    ISOCOST_ASSIGN(profile, CostProfile::parse(adopted));
  }
  CostModel model(std::move(profile), options_);
  ISOCOST_TRY(model.restore_state(state.substr(end + 1)));
  const MutexLock lock(model_mutex_);
  replace(std::move(model), std::move(adopted));
  restored_ = true;
  return {};
}

}  // namespace isocost
