#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/internal/gate.h"
#include "costmodel/internal/module_correction.h"
#include "costmodel/internal/rank_slowdowns.h"
#include "costmodel/internal/rows.h"

namespace isocost {

/// The measurements of one step.
struct MeasuredStep {
  std::uint64_t step = 0;
  std::uint32_t microbatches = 0;
  std::array<Rows, kModules> modules;
};

/// All that is learned: slowdowns of ranks, factors of modules, and whether more is worth learning.
/// Steps are taken in one after another; see CostModel for what is promised.
class Correction {
 public:
  Correction(const std::array<ModuleProfile, kModules>& profile, const CorrectionOptions& options);

  /// `own_seconds`: what collecting the step's measurements took.
  void take(const MeasuredStep& step, double own_seconds);

  const FactorVector& factors(std::size_t module) const { return modules_.at(module).factors(); }
  std::span<const double> rank_slowdowns() const { return ranks_.published(); }
  /// The ranks may be other hosts from here on.
  void forget_ranks() { ranks_ = RankSlowdowns(); }
  CorrectionStatus status() const;

  const ModuleCorrection& module(std::size_t module) const { return modules_.at(module); }
  /// Without the ranks' slowdowns: after a restart the ranks may be other hosts, in other numbers,
  /// and a few steps tell. Drifts are counted anew.
  struct Saved {
    std::array<ModuleCorrection::Saved, kModules> modules;
    bool reprofile = false;
  };
  Saved save() const;
  void restore(const Saved& saved);

 private:
  void judge_modules(const MeasuredStep& step);
  double everywhere(const Rows& rows);
  void judge_ranks(const MeasuredStep& step);
  void learn(const MeasuredStep& step);
  bool settled() const;
  double gain_of(const MeasuredStep& step);

  CorrectionOptions options_;
  std::vector<ModuleCorrection> modules_;
  RankSlowdowns ranks_;
  Gate gate_;
  std::array<double, kModules> everywhere_{};  // this step's median of measured over learned
  double last_gain_ = 0;
  double step_seconds_ = 0;
  std::int64_t steps_ = 0;
  std::uint64_t drifts_ = 0;
  bool reprofile_ = false;
  std::vector<double> scratch_;
  std::vector<RankRatio> ratios_;
};

}  // namespace isocost
