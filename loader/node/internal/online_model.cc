#include "loader/node/internal/online_model.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "base/counted.h"

namespace isocost {
namespace {

// Most queued measurements: more than ranks report between two plans.
constexpr std::size_t kMostObservations = 65'536;

// Beginning of a state: the format's name, and the name with the present version.
constexpr std::string_view kFormatName = "isocost cost model state ";
constexpr std::string_view kFormat = "isocost cost model state 2 ";

}  // namespace

OnlineModel::OnlineModel(const CostProfile& profile, CostModel::Options options, LogSink log)
    : options_(std::move(options)),
      log_(std::move(log)),
      profile_(profile),
      profile_identifier_(fmt::format("{:016x}", profile.fingerprint())),
      model_(std::make_unique<CostModel>(profile, options_)) {}

bool OnlineModel::queue_measurement(const Measurement& measurement,
                                    std::shared_ptr<const SealedStep> step) {
  const MutexLock lock(queue_mutex_);
  if (queue_.size() >= kMostObservations) return false;
  queue_.push_back({measurement, std::move(step)});
  return true;
}

void OnlineModel::queue_pass(std::uint64_t complete) {
  Observation passed;
  passed.measurement.step = complete;
  const MutexLock lock(queue_mutex_);
  if (queue_.size() < kMostObservations) queue_.push_back(std::move(passed));
}

void OnlineModel::observe_queued(Messages& messages) {
  std::vector<Observation> queued;
  {
    const MutexLock lock(queue_mutex_);
    queued.swap(queue_);
  }
  for (const Observation& one : queued) {
    if (one.step == nullptr) {
      model_->pass(one.measurement.step);
      continue;
    }
    if (one.step->plan.profile_generation != generation_) continue;
    const Status observed = model_->observe(one.measurement);
    if (observed) continue;
    // Logs the 1st, 2nd, 4th, 8th ... rejected measurement, since a trainer that errs once errs on
    // every microbatch.
    const std::int64_t rejected = rejected_before_ + model_->rejected();
    if ((rejected & (rejected - 1)) != 0) continue;
    messages.push_back({LogLevel::kWarning,
                        fmt::format("rank {}: {}; {} rejected so far", one.measurement.rank,
                                    observed.error().message(), counted(rejected, "measurement"))});
  }
}

void OnlineModel::describe_drift(Messages& messages) {
  const CorrectionStatus status = model_->correction();
  for (std::size_t m = 0; m < kModules; ++m) {
    const auto& module = status.modules.at(m);
    if (module.drifts == drifts_logged_.at(m)) continue;
    drifts_logged_.at(m) = module.drifts;
    messages.push_back(
        {LogLevel::kWarning,
         fmt::format("Model drift detected in module {}: measured {:.2f}x predicted over the last "
                     "{} steps.",
                     module_name(static_cast<CostModule>(m)), module.drift_ratio, kDriftSteps)});
  }
}

void OnlineModel::log_all(const Messages& messages) const {
  for (const Message& message : messages) log(log_, message.level, message.text);
}

Result<StepPlan> OnlineModel::plan(const std::function<Result<StepPlan>(const CostModel&)>& plan) {
  Messages messages;
  std::unique_ptr<CostModel> model;
  std::uint32_t generation = 0;
  {
    const MutexLock lock(model_mutex_);
    observe_queued(messages);
    model_->update();
    describe_drift(messages);
    before_plan_ = progress_of_model();
    generation = generation_;
    model = std::move(model_);
  }
  log_all(messages);
  Result<StepPlan> planned = plan(*model);
  if (planned) planned->profile_generation = generation;
  const MutexLock lock(model_mutex_);
  model_ = std::move(model);
  return planned;
}

void OnlineModel::begin_job() {
  Messages messages;
  {
    const MutexLock lock(model_mutex_);
    observe_queued(messages);
    model_->begin_job();
    generation_ += 1;
  }
  log_all(messages);
}

Status OnlineModel::adopt(std::string profile) {
  ISOCOST_ASSIGN(const CostProfile parsed, CostProfile::parse(profile));
  Messages messages;
  {
    const MutexLock lock(model_mutex_);
    replace(CostModel(parsed, options_), std::move(profile), messages);
    profiles_ += 1;
  }
  log_all(messages);
  return {};
}

void OnlineModel::replace(CostModel model, std::string profile, Messages& messages) {
  observe_queued(messages);
  measured_before_ += model_->measurements();
  rejected_before_ += model_->rejected();
  *model_ = std::move(model);
  adopted_ = std::move(profile);
  generation_ += 1;
  drifts_logged_ = {};
}

OnlineModel::Progress OnlineModel::progress() {
  Messages messages;
  Progress progress;
  {
    const MutexLock lock(model_mutex_);
    if (model_ == nullptr) return before_plan_;
    observe_queued(messages);
    progress = progress_of_model();
  }
  log_all(messages);
  return progress;
}

OnlineModel::Progress OnlineModel::progress_of_model() const {
  return {.correction = model_->correction(),
          .prediction_error_ratio = model_->prediction_error_ratio(),
          .measurements = measurements(),
          .rejected = rejected_before_ + model_->rejected(),
          .profiles = profiles_};
}

std::int64_t OnlineModel::measurements() const { return measured_before_ + model_->measurements(); }

CostProfile OnlineModel::profile() {
  const MutexLock lock(model_mutex_);
  return model_->profile();
}

std::string OnlineModel::profile_json() {
  {
    const MutexLock lock(model_mutex_);
    if (!adopted_.empty()) return adopted_;
  }
  return profile_.to_json();
}

bool OnlineModel::has_measurements() {
  Messages messages;
  bool any = false;
  {
    const MutexLock lock(model_mutex_);
    observe_queued(messages);
    any = measurements() > 0;
  }
  log_all(messages);
  return any;
}

// Writes the format; the starting profile's fingerprint as 16 hexadecimal digits; the adopted
// profile's JSON, which may be empty; a zero byte; CostModel's state.
std::string OnlineModel::save_state() {
  const MutexLock lock(model_mutex_);
  if (!restored_ && measurements() == 0) return {};
  return std::string(kFormat) + profile_identifier_ + adopted_ + '\0' + model_->save_state();
}

Status OnlineModel::restore_state(std::string_view state) {
  if (!state.starts_with(kFormat)) {
    if (state.starts_with(kFormatName) || state.starts_with("isocost learned ")) {
      return Error(ErrorCode::kUnsupported, "it is a cost model state of another version");
    }
    return Error(ErrorCode::kCorrupt, "it is not a cost model state");
  }
  state.remove_prefix(kFormat.size());
  if (!state.starts_with(profile_identifier_)) {
    return Error(ErrorCode::kInvalidArgument, "it belongs to another model profile");
  }
  state.remove_prefix(profile_identifier_.size());
  const std::size_t end = state.find('\0');
  if (end == std::string_view::npos) return Error(ErrorCode::kCorrupt, "its end is missing");
  std::string adopted(state.substr(0, end));
  CostProfile profile = profile_;
  if (!adopted.empty()) {
    ISOCOST_ASSIGN(profile, CostProfile::parse(adopted));
  }
  CostModel model(std::move(profile), options_);
  ISOCOST_TRY(model.restore_state(state.substr(end + 1)));
  Messages messages;
  {
    const MutexLock lock(model_mutex_);
    replace(std::move(model), std::move(adopted), messages);
    restored_ = true;
  }
  log_all(messages);
  return {};
}

}  // namespace isocost
