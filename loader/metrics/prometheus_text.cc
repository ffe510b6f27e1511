#include "loader/metrics/prometheus_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <utility>

namespace isocost {
namespace {

// Takes a family's series; leaves out what is not known.
class Series {
 public:
  Series(const MetricFamilyInfo& info, prometheus::MetricFamily& family)
      : info_(info), family_(family) {}

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
  const MetricFamilyInfo& info_;
  prometheus::MetricFamily& family_;
};

struct Row {
  MetricFamilyInfo info;
  void (*fill)(const NodeMetrics&, Series&);
};

std::string module_label(std::size_t module) {
  return std::string(module_name(static_cast<Module>(module)));
}

// The least length of the bucket's sequences; the first takes shorter ones, too.
std::string bucket_label(std::size_t bucket) {
  if (bucket == 0) return "0";
  return std::to_string(static_cast<std::int64_t>(std::ceil(bucket_start(bucket))));
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
      {{"isocost_uptime_seconds", kGauge, {}, "Since the node was made."},
       [](N n, Series& s) { s.add(n.uptime_s); }},
      {{"isocost_ranks",
        kGauge,
        {},
        "Data-parallel ranks of the job, or receivers of its layout; 0 before the first."},
       [](N n, Series& s) { s.add(n.ranks); }},
      {{"isocost_ranks_connected", kGauge, {}, "Ranks that a client holds now."},
       [](N n, Series& s) { s.add(n.ranks_present); }},
      {{"isocost_rank_place",
        kGauge,
        {"rank", "place"},
        "1 for each receiver of a layout: its place."},
       [](N n, Series& s) {
         for (std::size_t r = 0; r < n.places.size(); ++r) {
           s.add(1, {std::to_string(r), n.places[r]});
         }
       }},
      {{"isocost_epoch", kGauge, {}, "Epoch of the oldest step that some rank still trains on."},
       [](N n, Series& s) {
         if (n.queue.oldest) s.add(n.queue.oldest->epoch);
       }},
      {{"isocost_step", kGauge, {}, "Number of that step in its epoch."},
       [](N n, Series& s) {
         if (n.queue.oldest) s.add(n.queue.oldest->step);
       }},
      {{"isocost_epochs_planned_total", kCounter, {}, "Epochs planned to their end."},
       [](N n, Series& s) { s.add(n.summary.epochs); }},
      {{"isocost_steps_planned_total", kCounter, {}, "Steps decoded and planned."},
       [](N n, Series& s) { s.add(n.summary.steps); }},
      {{"isocost_planning_seconds_total", kCounter, {}, "Time that planning them took."},
       [](N n, Series& s) {
         s.add(n.summary.plan_seconds_mean * static_cast<double>(n.summary.steps));
       }},
  };
}

std::vector<Row> sample_rows() {
  return {
      {{"isocost_samples_planned_total", kCounter, {}, "Samples of the planned steps."},
       [](N n, Series& s) { s.add(n.summary.delivered); }},
      {{"isocost_samples_delivered_total",
        kCounter,
        {},
        "Samples sent to ranks; again for a rank that comes back, never with weight 0."},
       [](N n, Series& s) { s.add(n.training.samples_sent); }},
      {{"isocost_microbatches_delivered_total", kCounter, {}, "Microbatches that held them."},
       [](N n, Series& s) { s.add(n.training.microbatches_sent); }},
      {{"isocost_samples_bad_total", kCounter, {}, "Samples found bad by indexing or decoding."},
       [](N n, Series& s) { s.add(n.summary.bad); }},
      {{"isocost_samples_replaced_total", kCounter, {}, "Bad samples that another one replaced."},
       [](N n, Series& s) { s.add(n.summary.replaced); }},
      {{"isocost_samples_repeated_total",
        kCounter,
        {},
        "Places of weight 0, where a step has fewer samples than ranks."},
       [](N n, Series& s) { s.add(n.summary.repeats); }},
      {{"isocost_samples_dropped_total", kCounter, {}, "Samples dropped at the end of epochs."},
       [](N n, Series& s) { s.add(n.summary.dropped); }},
      {{"isocost_samples_decoded_again_total",
        kCounter,
        {},
        "Samples decoded once more when sent, since memory was short or a rank came back."},
       [](N n, Series& s) { s.add(n.summary.decoded_again); }},
  };
}

std::vector<Row> resource_rows() {
  return {
      {{"isocost_decoded_bytes_total", kCounter, {}, "Tensor bytes of all samples decoded."},
       [](N n, Series& s) { s.add(n.decoded_bytes); }},
      {{"isocost_memory_in_use_bytes", kGauge, {}, "Granted to decoding and decoded samples."},
       [](N n, Series& s) { s.add(n.memory_bytes); }},
      {{"isocost_memory_peak_bytes", kGauge, {}, "The most that was."},
       [](N n, Series& s) { s.add(n.summary.memory_peak_bytes); }},
      {{"isocost_memory_budget_bytes", kGauge, {}, "The setting memory."},
       [](N n, Series& s) { s.add(n.memory_budget_bytes); }},
      {{"isocost_queue_steps", kGauge, {}, "Planned steps that some rank has not acknowledged."},
       [](N n, Series& s) { s.add(n.queue.steps); }},
      {{"isocost_queue_planned_microbatches", kGauge, {}, "Of these, not sent yet."},
       [](N n, Series& s) { s.add(n.queue.planned); }},
      {{"isocost_queue_unacknowledged_microbatches",
        kGauge,
        {},
        "Of these, sent and not trained on yet."},
       [](N n, Series& s) { s.add(n.queue.unacknowledged); }},
      {{"isocost_queue_decoded_samples", kGauge, {}, "Decoded samples that wait to be sent."},
       [](N n, Series& s) { s.add(n.waiting_samples); }},
      {{"isocost_queue_decoded_bytes", kGauge, {}, "Memory granted to them."},
       [](N n, Series& s) { s.add(n.waiting_bytes); }},
  };
}

std::vector<Row> balance_rows() {
  return {
      {{"isocost_plan_imbalance_ratio",
        kGauge,
        {},
        "Predicted seconds of the slowest rank over the ranks' mean, in the step planned last."},
       [](N n, Series& s) { s.add(n.training.imbalance); }},
      {{"isocost_plan_makespan_seconds",
        kGauge,
        {},
        "What that step's plan was made to keep small, predicted."},
       [](N n, Series& s) { s.add(n.training.makespan_s); }},
      {{"isocost_plan_lower_bound_seconds", kGauge, {}, "No plan of that step is shorter."},
       [](N n, Series& s) { s.add(n.training.lower_bound_s); }},
      {{"isocost_predicted_seconds_total",
        kCounter,
        {"module", "rank"},
        "Predicted for the measured microbatches when they were planned."},
       [](N n, Series& s) { add_by_module_and_rank(n, s, &RankTotals::predicted); }},
      {{"isocost_measured_seconds_total",
        kCounter,
        {"module", "rank"},
        "Forward and backward, as trainers measured."},
       [](N n, Series& s) { add_by_module_and_rank(n, s, &RankTotals::measured); }},
      {{"isocost_forward_seconds_total",
        kCounter,
        {"rank"},
        "Of the seconds that trainers reported, forward passes', where they tell them apart."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::forward); }},
      {{"isocost_measured_steps_total", kCounter, {}, "Steps that every rank measured whole."},
       [](N n, Series& s) { s.add(n.training.measured_steps); }},
      {{"isocost_rank_busy_seconds_total", kCounter, {"rank"}, "All modules, in these steps."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::busy); }},
      {{"isocost_rank_idle_seconds_total",
        kCounter,
        {"rank"},
        "In these steps, what the slowest rank took longer."},
       [](N n, Series& s) { add_by_rank(n, s, &RankTotals::idle); }},
      {{"isocost_data_wait_seconds_total",
        kCounter,
        {"rank"},
        "Trainers blocked for a microbatch, as they report with measured seconds."},
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
      {{"isocost_measurements_total", kCounter, {}, "Microbatches whose measurement was taken."},
       [](N n, Series& s) { s.add(n.summary.measurements); }},
      {{"isocost_measurements_rejected_total",
        kCounter,
        {},
        "Measurements that were not: absurd, late, repeated or too many."},
       [](N n, Series& s) { s.add(n.summary.reports_rejected); }},
      {{"isocost_prediction_error_ratio",
        kGauge,
        {"module"},
        "Mean absolute relative error of predictions over the last 256 measured microbatches."},
       [](N n, Series& s) { add_by_module(s, n.summary.mape); }},
      {{"isocost_prediction_noise_ratio",
        kGauge,
        {"module"},
        "Standard deviation of microbatches around their predictions, relative."},
       [](N n, Series& s) {
         for (std::size_t m = 0; m < kModules; ++m) {
           s.add(n.correction.modules.at(m).noise, {module_label(m)});
         }
       }},
      {{"isocost_correction_enabled", kGauge, {}, "The setting correct."},
       [](N n, Series& s) { s.add(n.correct ? 1 : 0); }},
      {{"isocost_correction_on",
        kGauge,
        {},
        "The gate: 1 while every step is learned from, 0 while one in four is, to keep watch."},
       [](N n, Series& s) { s.add(n.correct && n.correction.on ? 1 : 0); }},
      {{"isocost_correction_gain_ratio",
        kGauge,
        {},
        "Share of the step time that correction saves, predicted: the gate compares it with ..."},
       [](N n, Series& s) { s.add(n.correction.gain); }},
      {{"isocost_correction_overhead_ratio",
        kGauge,
        {},
        "... the share of the step time that correction takes, measured."},
       [](N n, Series& s) { s.add(n.correction.overhead); }},
  };
}

std::vector<Row> factor_rows() {
  return {
      {{"isocost_correction_factor",
        kGauge,
        {"module", "bucket"},
        "On the seconds of samples in a bucket of shapes; bucket: its least sequence length."},
       [](N n, Series& s) { add_factors(n.correction, s); }},
      {{"isocost_correction_fixed_factor",
        kGauge,
        {"module"},
        "On the fixed seconds of a microbatch."},
       [](N n, Series& s) {
         for (std::size_t m = 0; m < kModules; ++m) {
           s.add(n.correction.modules.at(m).fixed, {module_label(m)});
         }
       }},
      {{"isocost_rank_slowdown", kGauge, {"rank"}, "On a rank's seconds: above 1 is slow."},
       [](N n, Series& s) { add_slowdowns(n, s); }},
      {{"isocost_drifts_total", kCounter, {}, "Times that a module was found changed."},
       [](N n, Series& s) { s.add(n.correction.drifts); }},
      {{"isocost_reprofile_suggested", kGauge, {}, "1 after a drift: the profile no longer holds."},
       [](N n, Series& s) { s.add(n.correction.reprofile_suggested ? 1 : 0); }},
      {{"isocost_reprofiles_total",
        kCounter,
        {},
        "Profiles that a trainer measured again, adopted."},
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

std::vector<MetricFamilyInfo> metric_families() {
  std::vector<MetricFamilyInfo> infos;
  for (const Row& row : all_rows()) infos.push_back(row.info);
  return infos;
}

std::string metric_table_markdown() {
  std::string out = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const Row& row : all_rows()) {
    std::string labels;
    for (const std::string& label : row.info.labels) {
      labels += (labels.empty() ? "`" : ", `") + label + "`";
    }
    out += "| `" + row.info.name + "` | " + (row.info.counter ? "counter" : "gauge") + " | " +
           labels + " | " + row.info.help + " |\n";
  }
  return out;
}

}  // namespace isocost
