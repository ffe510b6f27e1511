#include "loader/metrics/prometheus_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace isocost {
namespace {

// A family of metrics: one row of the table in docs/metrics.md.
struct FamilyInfo {
  std::string name;
  bool counter = false;             // whether it is a counter; otherwise it is a gauge
  std::vector<std::string> labels;  // labels of each series; empty if the family has one series
  std::string help;
};

// Adds series to a family and leaves out values that are not finite.
class Series {
 public:
  Series(const FamilyInfo& info, prometheus::MetricFamily& family) : info_(info), family_(family) {}

  template <typename Number>
  void add(Number number, std::initializer_list<std::string> labels = {}) {
    const auto value = static_cast<double>(number);
    if (!std::isfinite(value)) return;
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    auto name = info_.labels.begin();
    for (const std::string& label : labels) metric.label.push_back({*name++, label});
    (info_.counter ? metric.counter.value : metric.gauge.value) = value;
  }

 private:
  const FamilyInfo& info_;
  prometheus::MetricFamily& family_;
};

struct Row {
  FamilyInfo info;
  void (*fill)(const NodeMetrics&, Series&);
};

std::string module_label(std::size_t module) {
  return std::string(module_name(static_cast<Module>(module)));
}

void add_by_module(Series& series, const ModuleSeconds& values) {
  for (std::size_t m = 0; m < kModules; ++m) series.add(values.at(m), {module_label(m)});
}

void add_by_rank(const NodeMetrics& node, Series& series, double RankTotals::* member) {
  for (std::size_t r = 0; r < node.training.ranks.size(); ++r) {
    series.add(node.training.ranks[r].*member, {std::to_string(r)});
  }
}

void add_by_module_and_rank(const NodeMetrics& node, Series& series,
                            ModuleSeconds RankTotals::* member) {
  for (std::size_t m = 0; m < kModules; ++m) {
    for (std::size_t r = 0; r < node.training.ranks.size(); ++r) {
      series.add((node.training.ranks[r].*member).at(m), {module_label(m), std::to_string(r)});
    }
  }
}

constexpr bool kCounter = true;
constexpr bool kGauge = false;
using N = const NodeMetrics&;

std::vector<Row> progress_rows() {
  return {
      {{"isocost_uptime_seconds", kGauge, {}, "Seconds since the node was created."},
       [](N n, Series& s) { s.add(n.uptime_s); }},
      {{"isocost_ranks",
        kGauge,
        {},
        "Data-parallel ranks of the job, or receivers of its layout; 0 before the first job."},
       [](N n, Series& s) { s.add(n.ranks); }},
      {{"isocost_ranks_connected", kGauge, {}, "Ranks that are connected now."},
       [](N n, Series& s) { s.add(n.ranks_present); }},
      {{"isocost_rank_place",
        kGauge,
        {"rank", "place"},
        "Always 1. The label place names the place of a layout's receiver."},
       [](N n, Series& s) {
         for (std::size_t r = 0; r < n.places.size(); ++r) {
           s.add(1, {std::to_string(r), n.places[r]});
         }
       }},
      {{"isocost_epoch",
        kGauge,
        {},
        "Epoch of the oldest step that some rank has not acknowledged."},
       [](N n, Series& s) {
         if (n.queue.oldest) s.add(n.queue.oldest->epoch);
       }},
      {{"isocost_step", kGauge, {}, "Number of that step within its epoch."},
       [](N n, Series& s) {
         if (n.queue.oldest) s.add(n.queue.oldest->step);
       }},
      {{"isocost_epochs_planned_total", kCounter, {}, "Epochs planned to their end."},
       [](N n, Series& s) { s.add(n.summary.epochs); }},
      {{"isocost_steps_planned_total", kCounter, {}, "Steps decoded and planned."},
       [](N n, Series& s) { s.add(n.summary.steps); }},
      {{"isocost_planning_seconds_total", kCounter, {}, "Seconds spent on planning steps."},
       [](N n, Series& s) {
         s.add(n.summary.plan_seconds_mean * static_cast<double>(n.summary.steps));
       }},
      {{"isocost_steps_delivered_total",
        kCounter,
        {},
        "Planned steps that every rank has acknowledged."},
       [](N n, Series& s) { s.add(n.summary.steps_delivered); }},
  };
}

std::vector<Row> sample_rows() {
  return {
      {{"isocost_samples_planned_total", kCounter, {}, "Samples in the planned steps."},
       [](N n, Series& s) { s.add(n.summary.planned); }},
      {{"isocost_samples_delivered_total",
        kCounter,
        {},
        "Samples in microbatches that ranks have acknowledged. Samples of weight 0 do not count."},
       [](N n, Series& s) { s.add(n.summary.delivered); }},
      {{"isocost_samples_sent_total",
        kCounter,
        {},
        "Samples sent to ranks. Samples sent again count again; samples of weight 0 do not count."},
       [](N n, Series& s) { s.add(n.training.samples_sent); }},
      {{"isocost_microbatches_sent_total",
        kCounter,
        {},
        "Microbatches sent to ranks. Microbatches sent again count again."},
       [](N n, Series& s) { s.add(n.training.microbatches_sent); }},
      {{"isocost_microbatches_shared_total",
        kCounter,
        {},
        "Of these, those that went in shared memory and not over the socket."},
       [](N n, Series& s) { s.add(n.microbatches_shared); }},
      {{"isocost_samples_bad_total", kCounter, {}, "Bad samples found by indexing or decoding."},
       [](N n, Series& s) { s.add(n.summary.bad); }},
      {{"isocost_samples_replaced_total",
        kCounter,
        {},
        "Bad samples that were replaced by another sample."},
       [](N n, Series& s) { s.add(n.summary.replaced); }},
      {{"isocost_samples_repeated_total",
        kCounter,
        {},
        "Samples repeated with weight 0 because a step has fewer samples than ranks."},
       [](N n, Series& s) { s.add(n.summary.repeated); }},
      {{"isocost_samples_over_limit_total",
        kCounter,
        {},
        "Samples alone in a microbatch beyond its limit, by a model profile that came after the "
        "start."},
       [](N n, Series& s) { s.add(n.summary.over_limit); }},
      {{"isocost_samples_dropped_total", kCounter, {}, "Samples dropped at the end of an epoch."},
       [](N n, Series& s) { s.add(n.summary.dropped); }},
      {{"isocost_samples_decoded_again_total",
        kCounter,
        {},
        "Samples decoded a second time because memory was short or a rank reconnected."},
       [](N n, Series& s) { s.add(n.summary.decoded_again); }},
  };
}

std::vector<Row> resource_rows() {
  return {
      {{"isocost_decoded_bytes_total",
        kCounter,
        {},
        "Bytes of the tensors of all decoded samples."},
       [](N n, Series& s) { s.add(n.decoded_bytes); }},
      {{"isocost_memory_in_use_bytes",
        kGauge,
        {},
        "Memory granted to samples that are being decoded or wait to be sent, and to shared "
        "memory."},
       [](N n, Series& s) { s.add(n.memory_bytes); }},
      {{"isocost_memory_peak_bytes",
        kGauge,
        {},
        "Largest value of isocost_memory_in_use_bytes so far."},
       [](N n, Series& s) { s.add(n.summary.memory_peak_bytes); }},
      {{"isocost_memory_budget_bytes",
        kGauge,
        {},
        "Limit of isocost_memory_in_use_bytes: the option memory."},
       [](N n, Series& s) { s.add(n.memory_budget_bytes); }},
      {{"isocost_paused_seconds",
        kGauge,
        {},
        "Seconds since reads of shards began to fail, for which delivery waits; 0: they do not. "
        "The log names the cause."},
       [](N n, Series& s) { s.add(n.paused_s); }},
      {{"isocost_stalled_seconds",
        kGauge,
        {},
        "Seconds since a step was planned, sent or acknowledged, once they are more than the "
        "option "
        "stall_timeout; else 0. The log and /healthz name what is in the way."},
       [](N n, Series& s) { s.add(n.stalled_s); }},
      {{"isocost_queue_steps", kGauge, {}, "Planned steps that some rank has not acknowledged."},
       [](N n, Series& s) { s.add(n.queue.steps); }},
      {{"isocost_queue_planned_microbatches",
        kGauge,
        {},
        "Planned microbatches that wait for credit."},
       [](N n, Series& s) { s.add(n.queue.planned); }},
      {{"isocost_queue_unacknowledged_microbatches",
        kGauge,
        {},
        "Microbatches sent and not yet acknowledged."},
       [](N n, Series& s) { s.add(n.queue.unacknowledged); }},
      {{"isocost_queue_decoded_samples", kGauge, {}, "Decoded samples that wait to be sent."},
       [](N n, Series& s) { s.add(n.waiting_samples); }},
      {{"isocost_queue_decoded_bytes",
        kGauge,
        {},
        "Memory granted to decoded samples that wait to be sent."},
       [](N n, Series& s) { s.add(n.waiting_bytes); }},
  };
}

std::vector<Row> balance_rows() {
  return {
      {{"isocost_plan_imbalance_ratio",
        kGauge,
        {},
        "Predicted seconds of the slowest rank over the mean of all ranks, in the step planned "
        "last."},
       [](N n, Series& s) { s.add(n.training.imbalance); }},
      {{"isocost_plan_makespan_seconds",
        kGauge,
        {},
        "Predicted makespan of the step planned last."},
       [](N n, Series& s) { s.add(n.training.makespan_s); }},
      {{"isocost_plan_lower_bound_seconds",
        kGauge,
        {},
        "Lower bound of the makespan over all plans of that step."},
       [](N n, Series& s) { s.add(n.training.lower_bound_s); }},
      {{"isocost_predicted_seconds_total",
        kCounter,
        {"module", "rank"},
        "Seconds predicted, when the step was planned, for the microbatches that were measured."},
       [](N n, Series& s) { add_by_module_and_rank(n, s, &RankTotals::predicted); }},
      {{"isocost_measured_seconds_total",
        kCounter,
        {"module", "rank"},
        "Seconds of forward and backward that trainers reported."},
       [](N n, Series& s) { add_by_module_and_rank(n, s, &RankTotals::measured); }},
      {{"isocost_forward_seconds_total",
        kCounter,
        {"rank"},
        "Seconds of forward alone, from trainers that report it separately."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::forward); }},
      {{"isocost_measured_steps_total",
        kCounter,
        {},
        "Steps for which all ranks reported all microbatches."},
       [](N n, Series& s) { s.add(n.training.measured_steps); }},
      {{"isocost_rank_busy_seconds_total",
        kCounter,
        {"rank"},
        "Reported seconds of all modules, in the steps that every rank measured."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::busy); }},
      {{"isocost_rank_idle_seconds_total",
        kCounter,
        {"rank"},
        "Seconds this rank waited for the slowest rank, in steps that every rank measured."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::idle); }},
      {{"isocost_data_wait_seconds_total",
        kCounter,
        {"rank"},
        "Seconds the trainer reported waiting for a microbatch."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::data_wait); }},
  };
}

void add_factors(const CorrectionStatus& correction, Series& series) {
  for (std::size_t m = 0; m < kModules; ++m) {
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      series.add(correction.modules.at(m).buckets.at(b), {module_label(m), bucket_label(b)});
    }
  }
}

void add_slowdowns(const NodeMetrics& node, Series& series) {
  const std::vector<double>& slowdowns = node.correction.rank_slowdowns;
  for (std::size_t r = 0; r < std::max(node.training.ranks.size(), slowdowns.size()); ++r) {
    series.add(r < slowdowns.size() ? slowdowns[r] : 1, {std::to_string(r)});
  }
}

std::vector<Row> prediction_rows() {
  return {
      {{"isocost_measurements_total",
        kCounter,
        {},
        "Reports of a microbatch that correction accepted."},
       [](N n, Series& s) { s.add(n.summary.measurements); }},
      {{"isocost_measurements_rejected_total",
        kCounter,
        {},
        "Reports that were rejected: out of range, late, repeated, or too many."},
       [](N n, Series& s) { s.add(n.summary.measurements_rejected); }},
      {{"isocost_prediction_error_ratio",
        kGauge,
        {"module"},
        "Mean absolute relative error of predictions over the last 256 measured microbatches."},
       [](N n, Series& s) { add_by_module(s, n.summary.prediction_error_ratio); }},
      {{"isocost_prediction_noise_ratio",
        kGauge,
        {"module"},
        "Relative standard deviation of measured microbatches around their predictions."},
       [](N n, Series& s) {
         for (std::size_t m = 0; m < kModules; ++m) {
           s.add(n.correction.modules.at(m).noise, {module_label(m)});
         }
       }},
      {{"isocost_correction_enabled", kGauge, {}, "1 if the option correct is on."},
       [](N n, Series& s) { s.add(n.correct ? 1 : 0); }},
      {{"isocost_correction_on",
        kGauge,
        {},
        "1 while correction learns from every step; 0 while it is paused and learns from one in "
        "four."},
       [](N n, Series& s) { s.add(n.correct && n.correction.on ? 1 : 0); }},
      {{"isocost_correction_gain_ratio",
        kGauge,
        {},
        "Predicted share of the step time that correction saves. Below the overhead, correction "
        "pauses."},
       [](N n, Series& s) { s.add(n.correction.gain); }},
      {{"isocost_correction_overhead_ratio",
        kGauge,
        {},
        "Measured share of the step time that correction takes."},
       [](N n, Series& s) { s.add(n.correction.overhead); }},
  };
}

std::vector<Row> factor_rows() {
  return {
      {{"isocost_correction_factor",
        kGauge,
        {"module", "bucket"},
        "Factor on the predicted seconds of samples in a shape bucket, named by its smallest "
        "length."},
       [](N n, Series& s) { add_factors(n.correction, s); }},
      {{"isocost_correction_fixed_factor",
        kGauge,
        {"module"},
        "Factor on the predicted fixed seconds of a microbatch."},
       [](N n, Series& s) {
         for (std::size_t m = 0; m < kModules; ++m) {
           s.add(n.correction.modules.at(m).fixed, {module_label(m)});
         }
       }},
      {{"isocost_rank_slowdown",
        kGauge,
        {"rank"},
        "Factor on the predicted seconds of a rank; above 1 means slower."},
       [](N n, Series& s) { add_slowdowns(n, s); }},
      {{"isocost_drifts_total", kCounter, {}, "Times that model drift was detected in a module."},
       [](N n, Series& s) { s.add(n.correction.drifts); }},
      {{"isocost_reprofile_suggested",
        kGauge,
        {},
        "1 after model drift was detected: the model profile no longer holds."},
       [](N n, Series& s) { s.add(n.correction.reprofile_suggested ? 1 : 0); }},
      {{"isocost_reprofiles_total",
        kCounter,
        {},
        "Model profiles that a trainer measured during training and the node adopted."},
       [](N n, Series& s) { s.add(n.summary.reprofiles); }},
  };
}

const std::vector<Row>& all_rows() {
  static const std::vector<Row> the_rows = [] {
    std::vector<Row> rows = progress_rows();
    for (auto* part :
         {&sample_rows, &resource_rows, &balance_rows, &prediction_rows, &factor_rows}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return the_rows;
}

}  // namespace

std::string prometheus_text(const NodeMetrics& metrics) {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(all_rows().size());
  for (const Row& row : all_rows()) {
    prometheus::MetricFamily& family = families.emplace_back();
    family.name = row.info.name;
    family.help = row.info.help;
    family.type =
        row.info.counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    Series series(row.info, family);
    row.fill(metrics, series);
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace isocost
