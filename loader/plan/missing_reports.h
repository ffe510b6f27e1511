#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/units.h"
#include "loader/plan/step_plan.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A step of a job, ordered by job first.
struct StepId {
  std::uint64_t job = 0;
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;
  auto operator<=>(const StepId&) const = default;
};

/// The reports that a step still lacks. Every receiver reports each microbatch in which it has
/// work; it has none if an encoder microbatch is empty or its stage has no layers of the module.
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
  /// Marks a report as received. Returns whether it was missing before.
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

/// The modules measured so far in each microbatch of a step, so that none is counted twice.
class MeasuredModules {
 public:
  explicit MeasuredModules(const StepPlan& plan) : taken_(plan.receivers()) {
    for (std::size_t r = 0; r < taken_.size(); ++r) taken_[r].resize(plan.microbatches_of(r));
  }

  /// Takes a report on a microbatch of the plan. Returns false, and takes nothing, if an earlier
  /// report measured one of its modules.
  bool take(std::size_t receiver, const Report& report) {
    std::array<bool, kModules>& taken = taken_.at(receiver).at(report.position.microbatch);
    for (std::size_t m = 0; m < kModules; ++m) {
      if (taken.at(m) && is_module_time(report.seconds.at(m))) return false;
    }
    for (std::size_t m = 0; m < kModules; ++m) {
      taken.at(m) = taken.at(m) || is_module_time(report.seconds.at(m));
    }
    return true;
  }

 private:
  std::vector<std::vector<std::array<bool, kModules>>> taken_;  // [receivers][microbatches]
};

/// Steps for which some reports are still missing, by id. Keeps the newest 16: if a trainer never
/// reports some microbatch, its steps would stay open forever.
template <typename Step>
class OpenSteps {
 public:
  /// Returns the step, made by `make` if it is new.
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
