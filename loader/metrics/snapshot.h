#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "transport/messages.h"

namespace isocost {

/// What a node did, for people and for checks.
struct NodeSummary {
  std::uint64_t epochs = 0;
  std::uint64_t steps = 0;
  std::uint64_t delivered = 0;  ///< Samples planned for delivery, repeats left out.
  std::uint64_t bad = 0;        ///< Found bad, by indexing or decoding.
  std::uint64_t replaced = 0;
  std::uint64_t repeats = 0;  ///< Zero-weight places.
  std::uint64_t dropped = 0;  ///< Tail samples dropped.
  std::uint64_t decoded_again =
      0;  ///< Samples decoded twice because memory was short or a client came back.
  double plan_seconds_mean = 0;
  double gap_mean = 0;  ///< Plan's makespan over its lower bound, less 1.
  std::int64_t memory_peak_bytes = 0;
  std::int64_t measurements = 0;
  std::int64_t reports_rejected = 0;
  std::uint32_t reprofiles = 0;  ///< Profiles that a trainer measured again, adopted.
  ModuleSeconds mape{};          ///< NaN where nothing was measured.

  std::string to_json() const;
};

/// What one receiver of a plan was planned to take and took, in seconds summed since the node
/// began.
struct RankTotals {
  ModuleSeconds predicted{};  ///< When the step was planned, of microbatches that were measured.
  ModuleSeconds measured{};   ///< As reported.
  double forward = 0;         ///< Of what was reported: in forward passes, where trainers tell.
  double busy = 0;       ///< As reported, all modules; of steps that every rank measured whole.
  double idle = 0;       ///< In these, what the slowest rank took longer.
  double data_wait = 0;  ///< The trainer was blocked for a microbatch, as it reports.
  bool operator==(const RankTotals&) const = default;
};

/// Sums since the node began, and figures of the step planned last.
struct TrainingTotals {
  std::vector<RankTotals> ranks;  ///< As many as any job had that planned or reported.
  std::uint64_t measured_steps = 0;
  std::uint64_t microbatches_sent = 0;
  /// Labels and all; those sent again count again; of weight 0: never.
  std::uint64_t samples_sent = 0;
  // Of the step planned last; NaN before the first.
  double imbalance = std::numeric_limits<double>::quiet_NaN();  ///< Slowest rank over mean.
  double makespan_s = std::numeric_limits<double>::quiet_NaN();
  double lower_bound_s = std::numeric_limits<double>::quiet_NaN();
};

/// How much waits in the delivery queue, in microbatches summed over the ranks.
struct QueueDepth {
  std::size_t steps = 0;           ///< Not yet acknowledged by every rank.
  std::size_t planned = 0;         ///< Microbatches that wait for credit.
  std::size_t unacknowledged = 0;  ///< Sent, and not yet trained on.
  std::optional<Position> oldest;  ///< Of the first step held; its microbatch is 0.
};

/// What a node has done and is doing, at one moment: what /metrics and `isocost top` show. A plain
/// value.
struct NodeMetrics {
  double uptime_s = 0;
  NodeSummary summary;
  TrainingTotals training;
  bool correct = true;  ///< NodeOptions::correct.
  CorrectionStatus correction;

  std::int64_t ranks = 0;  ///< Of the job; 0 before the first.
  std::int64_t ranks_present = 0;
  std::vector<std::string> places;  ///< Of a layout's receivers; empty without one.
  QueueDepth queue;

  std::int64_t memory_bytes = 0;
  std::int64_t memory_budget_bytes = 0;
  std::int64_t waiting_bytes = 0;
  std::int64_t waiting_samples = 0;
  std::int64_t decoded_bytes = 0;
};

}  // namespace isocost
