#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/internal/module_correction.h"
#include "costmodel/internal/pause_control.h"
#include "costmodel/internal/rank_slowdowns.h"
#include "costmodel/internal/rows.h"

namespace isocost {

/// The measurements of one step.
struct MeasuredStep {
  std::uint64_t step = 0;
  std::uint32_t microbatches = 0;
  std::array<Rows, kModules> modules;
  std::vector<double> measuring_s;  ///< [ranks]: time that measuring took.

  /// Adds a rank's time; kNotMeasured, and what no measuring takes, counts as none.
  void add_measuring(std::int32_t rank, double seconds);
  /// Removes the measurements; the step's number stays.
  void clear();
};

/// The learned state of a cost model: slowdowns of ranks, factors of modules, and whether
/// correction is paused. Takes steps in their order; see CostModel for the guarantees.
class Correction {
 public:
  Correction(const std::array<ModuleCoefficients, kModules>& profile,
             const CorrectionOptions& options);

  /// Learns from one step. `own_seconds` is the time that collecting its measurements took here.
  void take(const MeasuredStep& step, double own_seconds);

  const FactorVector& factors(std::size_t module) const { return modules_.at(module).factors(); }
  std::span<const double> rank_slowdowns() const { return ranks_.published(); }
  /// Forgets the slowdowns, because the ranks may now be on other hosts, and ends a pause, to learn
  /// them anew.
  void forget_ranks() {
    ranks_ = RankSlowdowns();
    learned_step_ = 0;
    pause_control_.resume();
  }
  /// See CostModel::measuring_stride.
  std::int64_t measuring_stride() const {
    return seems_changed_ ? 1 : pause_control_.measuring_stride();
  }
  CorrectionStatus status() const;

  const ModuleCorrection& module(std::size_t module) const { return modules_.at(module); }
  /// The state without slowdowns (after a restart the ranks may be on other hosts, and a few steps
  /// suffice to learn them) and without the count of drifts.
  struct Saved {
    std::array<ModuleCorrection::Saved, kModules> modules;
    bool reprofile = false;
  };
  Saved save() const;
  void restore(const Saved& saved);

 private:
  void detect_drift(const MeasuredStep& step);
  double median_ratio(const Rows& rows);
  void update_rank_slowdowns(const MeasuredStep& step);
  void learn(const MeasuredStep& step);
  bool settled() const;
  bool seems_changed() const;
  double gain_of(const MeasuredStep& step);

  CorrectionOptions options_;
  std::vector<ModuleCorrection> modules_;
  RankSlowdowns ranks_;
  PauseControl pause_control_;
  std::array<double, kModules> median_ratios_{};  // this step's median of measured over learned
  double last_gain_ = 0;
  double step_seconds_ = 0;
  std::int64_t steps_ = 0;
  std::uint64_t learned_step_ = 0;  // the last step that was learned from
  std::uint64_t drifts_ = 0;
  bool reprofile_ = false;
  bool seems_changed_ = false;
  std::vector<double> scratch_;
  std::vector<RankRatio> ratios_;
};

}  // namespace isocost
