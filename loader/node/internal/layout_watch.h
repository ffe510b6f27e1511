#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "base/load.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/node/node_options.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// Estimates while training runs whether another layout would be faster. Model and data change: a
/// module is frozen or thawed, sequences grow, another source of a mixture prevails. When the mean
/// predicted seconds of a sample have changed by kMoved since the last estimate, it scores the
/// layout on the loads of the last steps and searches for a better one, with one thread of low
/// priority. Nothing is estimated for a layout without activation_caps, since what fits is then
/// unknown. It changes no plan. `observe` belongs to the planning thread; `gain` may be called from
/// any thread.
class LayoutWatch {
 public:
  static constexpr std::size_t kBatches = 4;    ///< Steps whose loads are used.
  static constexpr std::uint64_t kPeriod = 64;  ///< Steps between two looks at the means.
  static constexpr double kMoved = 0.1;
  static constexpr double kWorthTelling = 0.03;  ///< Least gain that is logged.

  /// `layout` null: it does nothing. `options` are those of the node, for the command that the log
  /// names. All must outlive it.
  LayoutWatch(const ServedLayout* layout, const NodeOptions& options, LogSink log);
  /// Stops a search and waits for its end.
  ~LayoutWatch() = default;
  LayoutWatch(const LayoutWatch&) = delete;
  LayoutWatch& operator=(const LayoutWatch&) = delete;

  /// Takes the loads of a step that is planned with `model`. Never waits for a search.
  void observe(const CostModel& model, std::span<const Load> loads) ISOCOST_EXCLUDES(mutex_);

  /// Returns by which part steps would be faster with the layout found last, 0 if none is; nothing
  /// before the first estimate.
  std::optional<double> gain() const ISOCOST_EXCLUDES(mutex_);

 private:
  struct Means {
    double encoder_s = 0;
    double llm_s = 0;
    std::size_t samples = 0;
  };
  using Batches = std::vector<std::vector<SampleCost>>;

  bool is_due();
  void start(const CostModel& model);
  void search(const JobModel& job, const Batches& batches, const std::stop_token& stop)
      ISOCOST_EXCLUDES(mutex_);
  void tell_no_search(const std::string& why) ISOCOST_EXCLUDES(mutex_);
  void set(std::optional<double> gain) ISOCOST_EXCLUDES(mutex_);
  std::string profile_source(const CostProfile& profile) const;
  std::string plan_command(const LayoutSearchOptions& search, bool has_profile) const;

  const ServedLayout* const layout_;
  const NodeOptions& options_;
  const LogSink log_;
  std::int64_t gpu_memory_ = 0;         // 0: unknown
  std::deque<std::vector<Load>> last_;  // loads of the last kBatches whole steps
  std::uint64_t steps_ = 0;
  Means since_look_;                // of the present period
  std::optional<Means> estimated_;  // of the period before the last estimate
  mutable Mutex mutex_;
  bool searching_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::optional<double> gain_ ISOCOST_GUARDED_BY(mutex_);
  std::jthread thread_;  // declared last, so it is joined first
};

}  // namespace isocost
