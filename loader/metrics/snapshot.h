#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Counters of one job of a node, as those of NodeSummary with the same names.
struct JobSummary {
  std::uint64_t steps = 0;
  std::uint64_t steps_delivered = 0;
  std::uint64_t planned = 0;
  std::uint64_t delivered = 0;
};

/// Counters and means since the node was created, as the program prints them at its end.
struct NodeSummary {
  std::uint64_t epochs = 0;           ///< Number planned to their end.
  std::uint64_t steps = 0;            ///< Number decoded and planned.
  std::uint64_t steps_delivered = 0;  ///< Number acknowledged by every rank.
  std::uint64_t planned = 0;          ///< Samples in the planned steps, without repeats.
  /// Samples in microbatches that ranks have acknowledged, without repeats. A sample that several
  /// receivers of a layout take counts once, when one that predicts labels acknowledges it.
  std::uint64_t delivered = 0;
  std::uint64_t bad = 0;         ///< Samples found bad by indexing or decoding.
  std::uint64_t replaced = 0;    ///< Bad samples that were replaced by another sample.
  std::uint64_t repeated = 0;    ///< Samples repeated with weight 0.
  std::uint64_t over_limit = 0;  ///< Samples that exceed the limit of a microbatch by themselves.
  std::uint64_t dropped = 0;     ///< Samples dropped at the end of an epoch.
  std::uint64_t decoded_again = 0;  ///< Samples decoded twice: memory was short, or a rank
                                    ///< reconnected.
  double plan_seconds_mean = 0;     ///< Seconds of planning per step.
  double gap_mean = 0;              ///< Makespan of a plan over its lower bound, less 1.
  std::int64_t memory_peak_bytes = 0;
  std::int64_t measurements = 0;           ///< Reports that correction accepted.
  std::int64_t measurements_rejected = 0;  ///< Reports out of range, late, repeated, or too many.
  /// Learned factor on each rank's seconds; ranks beyond the end: 1.
  std::vector<double> rank_slowdowns = {};
  /// Model profiles that trainers measured and the node adopted.
  std::uint32_t reprofiles = 0;
  /// Times that trainers were asked to measure, and the node kept the present profile.
  std::uint32_t reprofiles_kept = 0;
  double reprofile_seconds = 0;            ///< Seconds of training that measuring profiles took.
  ModuleSeconds prediction_error_ratio{};  ///< Mean absolute relative error of predictions; NaN
                                           ///< where not measured.

  /// The last job's share. Steps that an earlier job had planned and not delivered are in the sums
  /// above, and were planned again for the job that resumed there.
  JobSummary last_job = {};

  /// Returns a JSON object of all but `last_job`.
  std::string to_json() const;
};

/// Seconds of one receiver of a plan, summed since the node was created.
struct RankTotals {
  ModuleSeconds
      predicted{};  ///< Predicted when the step was planned, for microbatches that were measured.
  ModuleSeconds measured{};  ///< Forward and backward seconds, as reported.
  double forward = 0;        ///< Only forward seconds, from trainers that report them.
  double busy = 0;           ///< Seconds of all modules, in steps that every rank measured.
  double idle = 0;           ///< The slowest rank's seconds less this rank's, in the same steps.
  double data_wait = 0;      ///< Reported time of waiting for a microbatch.
  double measuring = 0;      ///< Reported time that measuring and reporting took.
  bool operator==(const RankTotals&) const = default;
};

/// Sums over the samples of a source of a mixture since the node was created.
struct SourceTotals {
  static constexpr const char* kLabel = "source";
  std::string name;
  std::uint64_t samples_sent = 0;  ///< See TrainingTotals::samples_sent.
  std::uint64_t labels_sent = 0;   ///< Label tokens of these samples.
  /// Seconds predicted for these samples when their steps were planned, of all modules, without the
  /// fixed seconds of microbatches.
  double predicted_s = 0;
  bool operator==(const SourceTotals&) const = default;
};

/// Requests to a server of shards since the data set was opened.
struct StoreTotals {
  static constexpr const char* kLabel = "store";
  std::string name;           ///< "s3://bucket", "https://host".
  std::int64_t requests = 0;  ///< Requests that were sent, with those that were repeated.
  std::int64_t bytes = 0;     ///< Bytes of the responses' bodies.
  std::int64_t retries = 0;
  std::int64_t throttled = 0;  ///< Responses that asked to wait.
  std::int64_t in_flight = 0;
  std::int64_t credential_renewals = 0;
  bool operator==(const StoreTotals&) const = default;
};

/// Work of the cache of shards on servers since the data set was opened; without a cache zeros.
struct CacheTotals {
  std::int64_t hits = 0;  ///< Reads that it answered.
  std::int64_t hit_bytes = 0;
  std::int64_t misses = 0;      ///< Reads for which a server was asked.
  std::int64_t kept_bytes = 0;  ///< Bytes that were written to it.
  std::int64_t damaged = 0;     ///< Ranges that were dropped, since their bytes had changed.
  std::int64_t evicted = 0;     ///< Objects that this node removed from it.
  bool operator==(const CacheTotals&) const = default;
};

/// Sums since the node was created, and figures of the step planned last.
struct TrainingTotals {
  std::vector<RankTotals> ranks;      ///< One for each rank of the largest job.
  std::vector<SourceTotals> sources;  ///< Those of a mixture; without one none.
  std::uint64_t measured_steps = 0;
  std::uint64_t microbatches_sent = 0;
  /// Samples sent to a rank again count again; samples of weight 0 do not count.
  std::uint64_t samples_sent = 0;
  // Figures of the step that was planned last; NaN before the first step.
  double imbalance = std::numeric_limits<double>::quiet_NaN();  ///< Slowest rank over mean.
  double makespan_s = std::numeric_limits<double>::quiet_NaN();
  double lower_bound_s = std::numeric_limits<double>::quiet_NaN();
};

/// Contents of the delivery queue, in microbatches summed over the ranks.
struct QueueDepth {
  std::size_t steps = 0;           ///< Steps that some rank has not acknowledged yet.
  std::size_t planned = 0;         ///< Microbatches that wait for credit.
  std::size_t unacknowledged = 0;  ///< Microbatches sent and not yet acknowledged.
  std::optional<Position> oldest;  ///< Position of the first step held; its microbatch is 0.
};

/// State of a node at one moment: the source of /metrics, /status.json and `isocost top`. A plain
/// value.
struct NodeMetrics {
  double uptime_s = 0;
  NodeSummary summary;
  TrainingTotals training;
  bool correct = true;  ///< CostModelOptions::correct.
  CorrectionStatus correction;

  std::int64_t ranks = 0;  ///< Ranks of the job; 0 before the first job.
  std::int64_t ranks_present = 0;
  /// By which part steps would be faster with another layout, simulated; NaN before the first
  /// estimate.
  double layout_gain = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string> places;  ///< Places of a layout's receivers; empty without a layout.
  QueueDepth queue;

  /// Memory granted to samples that are being decoded or wait to be sent, and to shared memory.
  std::int64_t memory_bytes = 0;
  std::int64_t memory_budget_bytes = 0;
  std::int64_t waiting_bytes = 0;    ///< Memory granted to decoded samples that wait to be sent.
  std::int64_t waiting_samples = 0;  ///< Decoded samples that wait to be sent.
  std::int64_t decoded_bytes = 0;    ///< Size of all samples decoded since the node was created.
  std::uint64_t microbatches_shared = 0;  ///< Microbatches sent in shared memory.
  /// Seconds since a microbatch was acknowledged or, while none was due, a step planned or sent,
  /// once they are more than stall_timeout; else 0.
  double stalled_s = 0;
  double paused_s = 0;  ///< Seconds since reads of shards began to fail; 0: they do not.
  std::vector<StoreTotals> stores;  ///< Servers of the data set's shards.
  CacheTotals cache;
};

/// Returns the name of a shape bucket (see shape_bucket.h) in metrics: its smallest sequence
/// length; "0" for the first, which holds shorter sequences, too.
std::string bucket_label(std::size_t bucket);

}  // namespace isocost
