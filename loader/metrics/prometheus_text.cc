#include "loader/metrics/prometheus_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/metrics/internal/metric_table.h"

namespace isocost {
namespace {

// Adds series to a family and leaves out values that are not finite.
class Series {
 public:
  Series(prometheus::MetricFamily& family, std::vector<std::string> labels)
      : family_(family), labels_(std::move(labels)) {}

  template <typename Number>
  void add(Number number, std::initializer_list<std::string> labels = {}) {
    const auto value = static_cast<double>(number);
    if (!std::isfinite(value)) return;
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    auto name = labels_.begin();
    for (const std::string& label : labels) metric.label.push_back({*name++, label});
    const bool counter = family_.type == prometheus::MetricType::Counter;
    (counter ? metric.counter.value : metric.gauge.value) = value;
  }

 private:
  prometheus::MetricFamily& family_;
  const std::vector<std::string> labels_;  // names of each series' labels
};

std::string module_label(std::size_t module) {
  return std::string(module_name(static_cast<CostModule>(module)));
}

// Makes a family of each row of the table.
class FamilyWriter {
 public:
  static constexpr bool kReads = false;

  const std::vector<prometheus::MetricFamily>& families() const { return families_; }

  template <typename Number>
  void count(const MetricInfo& info, Number value) {
    family(info).add(value);
  }
  void amount(const MetricInfo& info, double value) { family(info).add(value); }
  void flag(const MetricInfo& info, bool value) { family(info).add(value ? 1 : 0); }
  void position(const MetricInfo& epoch, const MetricInfo& step,
                const std::optional<Position>& position) {
    Series epochs = family(epoch);
    if (position) epochs.add(position->epoch);
    Series steps = family(step);
    if (position) steps.add(position->step);
  }
  void places(const MetricInfo& info, const std::vector<std::string>& places) {
    Series series = family(info, {"rank", "place"});
    for (std::size_t r = 0; r < places.size(); ++r) series.add(1, {std::to_string(r), places[r]});
  }
  template <typename Of>
  void by_module(const MetricInfo& info, const Of& of) {
    Series series = family(info, {"module"});
    for (std::size_t m = 0; m < kModules; ++m) series.add(of(m), {module_label(m)});
  }
  template <typename Of>
  void by_bucket(const MetricInfo& info, const Of& of) {
    Series series = family(info, {"module", "bucket"});
    for (std::size_t m = 0; m < kModules; ++m) {
      for (std::size_t b = 0; b < kShapeBuckets; ++b) {
        series.add(of(m, b), {module_label(m), bucket_label(b)});
      }
    }
  }
  void by_rank(const MetricInfo& info, const std::vector<RankTotals>& ranks,
               double RankTotals::* member) {
    Series series = family(info, {"rank"});
    for (std::size_t r = 0; r < ranks.size(); ++r)
      series.add(ranks[r].*member, {std::to_string(r)});
  }
  void by_module_and_rank(const MetricInfo& info, const std::vector<RankTotals>& ranks,
                          ModuleSeconds RankTotals::* member) {
    Series series = family(info, {"module", "rank"});
    for (std::size_t m = 0; m < kModules; ++m) {
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        series.add((ranks[r].*member).at(m), {module_label(m), std::to_string(r)});
      }
    }
  }
  // Without a row there is no family, either.
  template <typename Row, typename Of>
  void by_name(const MetricInfo& info, const std::vector<Row>& rows, const Of& of) {
    if (rows.empty()) return;
    Series series = family(info, {Row::kLabel});
    for (const Row& row : rows) series.add(of(row), {row.name});
  }
  void slowdowns(const MetricInfo& info, const std::vector<double>& slowdowns, std::size_t ranks) {
    Series series = family(info, {"rank"});
    for (std::size_t r = 0; r < std::max(ranks, slowdowns.size()); ++r) {
      series.add(r < slowdowns.size() ? slowdowns[r] : 1, {std::to_string(r)});
    }
  }

 private:
  // Returns a family for its series. The next one ends its use.
  Series family(const MetricInfo& info, std::vector<std::string> labels = {}) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = std::string("isocost_") + info.name;
    family.help = info.help;
    family.type = std::string_view(info.name).ends_with("_total") ? prometheus::MetricType::Counter
                                                                  : prometheus::MetricType::Gauge;
    return {family, std::move(labels)};
  }

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace

std::string prometheus_text(const NodeMetrics& metrics) {
  FamilyWriter writer;
  visit_metrics(writer, metrics);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, writer.families());
  return std::move(out).str();
}

}  // namespace isocost
