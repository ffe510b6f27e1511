#pragma once

#include <cstddef>

#include "loader/metrics/snapshot.h"

namespace isocost {

/// A family of metrics: one row of the table in docs/metric_list.md. Names that end in "_total" are
/// counters, the others gauges.
struct MetricInfo {
  const char* name = "";  ///< Key in /status.json; with "isocost_" before it, the name in /metrics.
  const char* help = "";
  /// Order among the lists of modules or of ranks in /status.json. Equal ones are in the order of
  /// the table.
  int json_order = 0;
};

// The table: each function visits a group of families, and `visit_metrics` all of them, in the
// order of /metrics. `Metrics` is NodeMetrics, constant for a visitor that writes. A visitor has a
// function for each kind of value: `amount`, `count` and `flag` for one number, `position` for two,
// `places` for names of ranks, `by_module`, `by_bucket`, `by_rank`, `by_module_and_rank`,
// `slowdowns` and `by_name` for several; and `kReads`, which says whether it sets values.

template <typename Visitor, typename Metrics>
void visit_progress(Visitor& at, Metrics& node) {
  at.amount({"uptime_seconds", "Seconds since the node was created."}, node.uptime_s);
  at.count({"ranks",
            "Data-parallel ranks of the job, or receivers of its layout; 0 before the first job."},
           node.ranks);
  at.count({"ranks_connected", "Ranks that are connected now."}, node.ranks_present);
  at.places({"rank_place", "Always 1. The label place names the place of a layout's receiver.", 4},
            node.places);
  at.position({"epoch", "Epoch of the oldest step that some rank has not acknowledged."},
              {"step", "Number of that step within its epoch."}, node.queue.oldest);
  at.count({"epochs_planned_total", "Epochs planned to their end."}, node.summary.epochs);
  at.count({"steps_planned_total", "Steps decoded and planned."}, node.summary.steps);
  const auto steps = static_cast<double>(node.summary.steps);
  double planning_s = node.summary.plan_seconds_mean * steps;
  at.amount({"planning_seconds_total", "Seconds spent on planning steps."}, planning_s);
  if constexpr (Visitor::kReads) {
    node.summary.plan_seconds_mean = steps > 0 ? planning_s / steps : 0;
  }
  at.count({"steps_delivered_total", "Planned steps that every rank has acknowledged."},
           node.summary.steps_delivered);
}

template <typename Visitor, typename Metrics>
void visit_samples(Visitor& at, Metrics& node) {
  at.count({"samples_planned_total", "Samples in the planned steps."}, node.summary.planned);
  at.count(
      {"samples_delivered_total",
       "Samples in microbatches that ranks have acknowledged. Samples of weight 0 do not count."},
      node.summary.delivered);
  at.count(
      {"samples_sent_total",
       "Samples sent to ranks. Samples sent again count again; samples of weight 0 do not count."},
      node.training.samples_sent);
  at.count({"microbatches_sent_total",
            "Microbatches sent to ranks. Microbatches sent again count again."},
           node.training.microbatches_sent);
  at.count({"microbatches_shared_total",
            "Sent microbatches that went in shared memory and not over the socket."},
           node.microbatches_shared);
  at.count({"samples_bad_total", "Bad samples found by indexing or decoding."}, node.summary.bad);
  at.count({"samples_replaced_total", "Bad samples that were replaced by another sample."},
           node.summary.replaced);
  at.count({"samples_repeated_total",
            "Samples repeated with weight 0 because a step has fewer samples than ranks."},
           node.summary.repeated);
  at.count({"samples_over_limit_total",
            "Samples alone in a microbatch beyond its limit, by a model profile that came after "
            "the start."},
           node.summary.over_limit);
  at.count({"samples_dropped_total", "Samples dropped at the end of an epoch."},
           node.summary.dropped);
  at.count({"samples_decoded_again_total",
            "Samples decoded a second time because memory was short or a rank reconnected."},
           node.summary.decoded_again);
}

template <typename Visitor, typename Metrics>
void visit_sources(Visitor& at, Metrics& node) {
  at.by_name({"source_samples_sent_total",
              "Samples sent to ranks, by source of a mixture. Samples sent again count again; "
              "samples of weight 0 do not count."},
             node.training.sources, [](auto& source) -> auto& { return source.samples_sent; });
  at.by_name({"source_label_tokens_sent_total", "Label tokens of these samples."},
             node.training.sources, [](auto& source) -> auto& { return source.labels_sent; });
  at.by_name({"source_predicted_seconds_total",
              "Seconds predicted for these samples when their steps were planned, without the "
              "fixed seconds of microbatches."},
             node.training.sources, [](auto& source) -> auto& { return source.predicted_s; });
}

template <typename Visitor, typename Metrics>
void visit_stores(Visitor& at, Metrics& node) {
  at.by_name({"store_requests_total",
              "Requests that were sent to a server of shards, with those that were repeated."},
             node.stores, [](auto& store) -> auto& { return store.requests; });
  at.by_name({"store_received_bytes_total", "Bytes of the bodies of its responses."}, node.stores,
             [](auto& store) -> auto& { return store.bytes; });
  at.by_name({"store_retries_total", "Requests that were repeated."}, node.stores,
             [](auto& store) -> auto& { return store.retries; });
  at.by_name({"store_throttled_total", "Responses that asked to wait: status 429 and 503."},
             node.stores, [](auto& store) -> auto& { return store.throttled; });
  at.by_name({"store_requests_in_flight", "Requests that wait for their response."}, node.stores,
             [](auto& store) -> auto& { return store.in_flight; });
  at.by_name({"store_credential_renewals_total", "Renewals of the keys of a bucket."}, node.stores,
             [](auto& store) -> auto& { return store.credential_renewals; });
}

template <typename Visitor, typename Metrics>
void visit_cache(Visitor& at, Metrics& node) {
  at.count({"cache_hits_total",
            "Reads of shards on servers that the cache answered; without a cache 0, as its other "
            "values."},
           node.cache.hits);
  at.count({"cache_hit_bytes_total", "Bytes of these reads."}, node.cache.hit_bytes);
  at.count({"cache_misses_total", "Reads that it could not answer."}, node.cache.misses);
  at.count({"cache_kept_bytes_total", "Bytes that were written to it."}, node.cache.kept_bytes);
  at.count({"cache_damaged_total", "Ranges that it dropped, since their bytes had changed."},
           node.cache.damaged);
  at.count({"cache_evicted_total", "Objects that this node removed from it."}, node.cache.evicted);
}

template <typename Visitor, typename Metrics>
void visit_resources(Visitor& at, Metrics& node) {
  at.count({"decoded_bytes_total", "Bytes of the tensors of all decoded samples."},
           node.decoded_bytes);
  at.count({"memory_in_use_bytes",
            "Memory granted to samples that are being decoded or wait to be sent, and to shared "
            "memory."},
           node.memory_bytes);
  at.count({"memory_peak_bytes", "Largest value of isocost_memory_in_use_bytes so far."},
           node.summary.memory_peak_bytes);
  at.count({"memory_budget_bytes", "Limit of isocost_memory_in_use_bytes: the option memory."},
           node.memory_budget_bytes);
  at.amount({"paused_seconds",
             "Seconds since reads of shards began to fail, for which delivery waits; 0: they do "
             "not. The log names the cause."},
            node.paused_s);
  at.amount({"stalled_seconds",
             "Seconds since a microbatch was acknowledged or, while none was due, a step planned "
             "or sent, once they are more than the option stall_timeout; else 0. The log and "
             "/healthz name what is in the way."},
            node.stalled_s);
  at.count({"queue_steps", "Planned steps that some rank has not acknowledged."}, node.queue.steps);
  at.count({"queue_planned_microbatches", "Planned microbatches that wait for credit."},
           node.queue.planned);
  at.count({"queue_unacknowledged_microbatches", "Microbatches sent and not yet acknowledged."},
           node.queue.unacknowledged);
  at.count({"queue_decoded_samples", "Decoded samples that wait to be sent."},
           node.waiting_samples);
  at.count({"queue_decoded_bytes", "Memory granted to decoded samples that wait to be sent."},
           node.waiting_bytes);
}

template <typename Visitor, typename Metrics>
void visit_balance(Visitor& at, Metrics& node) {
  at.amount({"plan_imbalance_ratio",
             "Predicted seconds of the slowest rank over the mean of all ranks, in the step "
             "planned last."},
            node.training.imbalance);
  at.amount({"plan_makespan_seconds", "Predicted makespan of the step planned last."},
            node.training.makespan_s);
  at.amount(
      {"plan_lower_bound_seconds", "Lower bound of the makespan over all plans of that step."},
      node.training.lower_bound_s);
  at.by_module_and_rank(
      {"predicted_seconds_total",
       "Seconds predicted, when the step was planned, for the microbatches that were measured.", 3},
      node.training.ranks, &RankTotals::predicted);
  at.by_module_and_rank(
      {"measured_seconds_total", "Seconds of forward and backward that trainers reported.", 3},
      node.training.ranks, &RankTotals::measured);
  at.by_rank({"forward_seconds_total",
              "Seconds of forward alone, from trainers that report it separately.", 2},
             node.training.ranks, &RankTotals::forward);
  at.count({"measured_steps_total", "Steps for which all ranks reported all microbatches."},
           node.training.measured_steps);
  at.by_rank({"rank_busy_seconds_total",
              "Reported seconds of all modules, in the steps that every rank measured.", 1},
             node.training.ranks, &RankTotals::busy);
  at.by_rank(
      {"rank_idle_seconds_total",
       "Seconds this rank waited for the slowest rank, in steps that every rank measured.", 1},
      node.training.ranks, &RankTotals::idle);
  at.by_rank(
      {"data_wait_seconds_total", "Seconds the trainer reported waiting for a microbatch.", 1},
      node.training.ranks, &RankTotals::data_wait);
  at.by_rank({"measuring_seconds_total",
              "Seconds that measuring and reporting took the trainer, as it reported.", 1},
             node.training.ranks, &RankTotals::measuring);
}

template <typename Visitor, typename Metrics>
void visit_predictions(Visitor& at, Metrics& node) {
  at.count({"measurements_total", "Reports of a microbatch that correction accepted."},
           node.summary.measurements);
  at.count({"measurements_rejected_total",
            "Reports that were rejected: out of range, late, repeated, or too many."},
           node.summary.measurements_rejected);
  at.by_module(
      {"prediction_error_ratio",
       "Mean absolute relative error of predictions over the last 256 measured microbatches."},
      [&](std::size_t m) -> auto& { return node.summary.prediction_error_ratio.at(m); });
  at.by_module({"prediction_noise_ratio",
                "Relative standard deviation of measured microbatches around their predictions."},
               [&](std::size_t m) -> auto& { return node.correction.modules.at(m).noise; });
  at.flag({"correction_enabled", "1 if the option correct is on."}, node.correct);
  bool on = node.correct && node.correction.on;
  at.flag({"correction_on",
           "1 while correction learns from every measured step; 0 while it is paused."},
          on);
  if constexpr (Visitor::kReads) node.correction.on = on;
  at.amount({"correction_gain_ratio",
             "Predicted share of the step time that correction saves. Below the overhead, "
             "correction pauses."},
            node.correction.gain);
  at.amount({"correction_overhead_ratio",
             "Measured share of the step time that correction takes in a step that is measured: of "
             "trainers that measure and of the node that learns."},
            node.correction.overhead);
  at.amount({"correction_measuring_ratio", "The trainers' part of correction_overhead_ratio."},
            node.correction.measuring);
  at.count({"correction_measuring_stride", "One step in so many is measured; 1: every step."},
           node.correction.measuring_stride);
}

template <typename Visitor, typename Metrics>
void visit_factors(Visitor& at, Metrics& node) {
  at.by_bucket({"correction_factor",
                "Factor on the predicted seconds of samples in a shape bucket, named by its "
                "smallest length.",
                1},
               [&](std::size_t m, std::size_t b) -> auto& {
                 return node.correction.modules.at(m).buckets.at(b);
               });
  at.by_module(
      {"correction_fixed_factor", "Factor on the predicted fixed seconds of a microbatch."},
      [&](std::size_t m) -> auto& { return node.correction.modules.at(m).fixed; });
  at.by_module(
      {"correction_penalty_ratio",
       "Penalty of the most underestimated length: the largest factor of a shape bucket over the "
       "median of the module's."},
      [&](std::size_t m) -> auto& { return node.correction.modules.at(m).penalty; });
  at.slowdowns(
      {"rank_slowdown", "Factor on the predicted seconds of a rank; above 1 means slower."},
      node.correction.rank_slowdowns, node.training.ranks.size());
  at.count({"drifts_total", "Times that model drift was detected in a module."},
           node.correction.drifts);
  at.flag({"reprofile_suggested",
           "1 after model drift was detected: the model profile no longer holds."},
          node.correction.reprofile_suggested);
  at.count({"reprofiles_total",
            "Model profiles that trainers measured during training and the node adopted."},
           node.summary.reprofiles);
  at.count({"reprofiles_kept_total",
            "Times that trainers were asked to measure a model profile and the node kept the "
            "present one."},
           node.summary.reprofiles_kept);
  at.amount({"reprofile_seconds_total",
             "Seconds of training that measuring model profiles took, which reprofile_budget "
             "limits."},
            node.summary.reprofile_seconds);
  at.amount(
      {"layout_gain_ratio",
       "Part by which steps would be faster with the best layout found for recent samples and "
       "the present model, simulated; 0: none is faster."},
      node.layout_gain);
}

template <typename Visitor, typename Metrics>
void visit_metrics(Visitor& at, Metrics& node) {
  visit_progress(at, node);
  visit_samples(at, node);
  visit_sources(at, node);
  visit_stores(at, node);
  visit_cache(at, node);
  visit_resources(at, node);
  visit_balance(at, node);
  visit_predictions(at, node);
  visit_factors(at, node);
}

}  // namespace isocost
