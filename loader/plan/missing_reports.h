#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/cost_model.h"
#include "loader/plan/step_plan.h"
#include "transport/messages.h"

namespace isocost {

/// Reported seconds that may be a time: see CostModel::observe. NaN is not.
inline bool is_time(double seconds) {
  return seconds >= kLeastModuleSeconds && seconds <= kMostModuleSeconds;
}

/// A step of a job. Jobs first: they come in order.
struct StepId {
  std::uint64_t job = 0;
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;
  auto operator<=>(const StepId&) const = default;
};

/// Which reports on a step are still to come: one for each microbatch in which a receiver has
/// something to do. Encoder microbatches may be empty, and stages may have no layers of a module.
class MissingReports {
 public:
  MissingReports() = default;
  explicit MissingReports(const StepPlan& plan) {
    for (std::size_t r = 0; r < plan.receivers(); ++r) {
      std::vector<bool>& of_receiver = missing_.emplace_back();
      for (std::uint32_t m = 0; m < plan.microbatches_of(r); ++m) {
        of_receiver.push_back(plan.seconds_of(r, m) > 0);
        left_ += of_receiver.back() ? 1 : 0;
      }
    }
  }

  std::size_t receivers() const { return missing_.size(); }
  std::size_t left() const { return left_; }
  /// Whether it had been missing; it is no longer.
  bool take(std::size_t receiver, std::uint32_t microbatch) {
    if (receiver >= missing_.size() || microbatch >= missing_[receiver].size()) return false;
    if (!missing_[receiver][microbatch]) return false;
    missing_[receiver][microbatch] = false;
    left_ -= 1;
    return true;
  }

 private:
  std::vector<std::vector<bool>> missing_;  // [receivers][microbatches]
  std::size_t left_ = 0;
};

/// What was measured of a step so far: seconds of a module and microbatch count once.
class MeasuredModules {
 public:
  explicit MeasuredModules(const StepPlan& plan) : taken_(plan.receivers()) {
    for (std::size_t r = 0; r < taken_.size(); ++r) taken_[r].resize(plan.microbatches_of(r));
  }

  /// Of a microbatch of the plan. Whether the report measures nothing that another one did before.
  bool take(std::size_t receiver, const Report& report) {
    std::array<bool, kModules>& taken = taken_.at(receiver).at(report.position.microbatch);
    for (std::size_t m = 0; m < kModules; ++m) {
      if (taken.at(m) && is_time(report.seconds.at(m))) return false;
    }
    for (std::size_t m = 0; m < kModules; ++m) {
      taken.at(m) = taken.at(m) || is_time(report.seconds.at(m));
    }
    return true;
  }

 private:
  std::vector<std::vector<std::array<bool, kModules>>> taken_;  // [receivers][microbatches]
};

/// Steps that some receivers have reported on and others not yet, by id. A trainer that never
/// reports on some microbatch leaves its steps open: of more than 16 the oldest go.
template <typename Step>
class OpenSteps {
 public:
  /// The step, made by `make` where it is new.
  template <typename Make>
  Step& at(const StepId& id, const Make& make) {
    const auto found = steps_.find(id);
    if (found != steps_.end()) return found->second;
    constexpr std::size_t kMost = 16;
    while (steps_.size() >= kMost) steps_.erase(steps_.begin());
    return steps_.emplace(id, make()).first->second;
  }
  void erase(const StepId& id) { steps_.erase(id); }

 private:
  std::map<StepId, Step> steps_;
};

}  // namespace isocost
