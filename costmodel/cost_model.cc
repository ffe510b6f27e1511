#include "costmodel/cost_model.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/internal/correction.h"

namespace isocost {
namespace {

constexpr double kLongestMicrobatchSeconds = 86'400;
constexpr std::size_t kErrorWindow = 256;

/// The last 256 absolute percentage errors.
class ErrorWindow {
 public:
  void add(double error) {
    if (errors_.size() < kErrorWindow) {
      errors_.push_back(error);
    } else {
      errors_[next_] = error;
    }
    next_ = (next_ + 1) % kErrorWindow;
  }
  double mean() const {
    if (errors_.empty()) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (const double error : errors_) sum += error;
    return sum / static_cast<double>(errors_.size());
  }

 private:
  std::vector<double> errors_;
  std::size_t next_ = 0;
};

Status check(const Measurement& measurement) {
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<Module>(i)));
    const double seconds = measurement.seconds.at(i);
    if (!std::isfinite(seconds) || seconds > kLongestMicrobatchSeconds) {
      return Error(ErrorCode::kInvalidArgument,
                   "measurement: seconds of " + name + " are " + std::to_string(seconds) +
                       "; give finite seconds up to a day, or negative ones for 'not measured'");
    }
    const ModuleLoad& load = measurement.load.modules.at(i);
    if (load.sequences < 0 || load.units < 0 || load.units_squared < 0) {
      return Error(ErrorCode::kInvalidArgument,
                   "measurement: the load of " + name + " is negative");
    }
  }
  return {};
}

double without_launch(const ModuleCoefficients& c, const ModuleLoad& load) {
  return c.per_sequence * static_cast<double>(load.sequences) +
         c.per_unit * static_cast<double>(load.units) +
         c.per_unit_squared * static_cast<double>(load.units_squared);
}

}  // namespace

struct CostModel::State {
  State(const CostProfile& profile, const Options& wanted) : options(wanted) {
    for (std::size_t i = 0; i < kModules; ++i) {
      coefficients.at(i) = profile.modules.at(i);
      corrections.emplace_back(profile.modules.at(i), options.half_life, options.prior_strength);
    }
  }

  void learn(std::size_t module, const ModuleLoad& load, double seconds) {
    const bool says_something = seconds > 0 && (load.sequences > 0 || load.units > 0);
    if (!says_something) return;
    const double expected = predict(coefficients.at(module), load).count();
    errors.at(module).add(std::abs(expected - seconds) / seconds);
    if (!options.correct) return;
    corrections.at(module).observe(load, seconds);
    coefficients.at(module) = corrections.at(module).coefficients();
  }

  Options options;
  std::vector<Correction> corrections;
  std::array<ModuleCoefficients, kModules> coefficients;
  std::array<ErrorWindow, kModules> errors;
  std::int64_t measurements = 0;
  std::int64_t rejected = 0;
};

CostModel::CostModel(CostProfile profile, const Options& options)
    : state_(std::make_unique<State>(profile, options)) {}
CostModel::~CostModel() = default;
CostModel::CostModel(CostModel&& other) noexcept = default;
CostModel& CostModel::operator=(CostModel&& other) noexcept = default;

ModuleSeconds CostModel::predict_sample(const Load& load) const {
  ModuleSeconds seconds{};
  for (std::size_t i = 0; i < kModules; ++i) {
    seconds.at(i) = without_launch(state_->coefficients.at(i), load.modules.at(i));
  }
  return seconds;
}

ModuleSeconds CostModel::predict_microbatch(const Load& load) const {
  ModuleSeconds seconds{};
  for (std::size_t i = 0; i < kModules; ++i) {
    seconds.at(i) = predict(state_->coefficients.at(i), load.modules.at(i)).count();
  }
  return seconds;
}

Status CostModel::observe(const Measurement& measurement) {
  if (Status checked = check(measurement); !checked) {
    ++state_->rejected;
    return checked;
  }
  ++state_->measurements;
  for (std::size_t i = 0; i < kModules; ++i) {
    state_->learn(i, measurement.load.modules.at(i), measurement.seconds.at(i));
  }
  return {};
}

const std::array<ModuleCoefficients, kModules>& CostModel::coefficients() const {
  return state_->coefficients;
}

ModuleSeconds CostModel::mape() const {
  ModuleSeconds errors{};
  for (std::size_t i = 0; i < kModules; ++i) errors.at(i) = state_->errors.at(i).mean();
  return errors;
}

std::int64_t CostModel::measurements() const { return state_->measurements; }
std::int64_t CostModel::rejected() const { return state_->rejected; }

}  // namespace isocost
