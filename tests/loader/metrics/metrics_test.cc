// The page /metrics holds the values of the snapshot, and docs/metric_list.md lists every family.

#include "loader/metrics/prometheus_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/loader/metrics/metric_text.h"

namespace isocost {
namespace {

NodeMetrics some_metrics() {
  NodeMetrics node;
  node.uptime_s = 12.5;
  node.layout_gain = 0.07;
  node.summary.steps = 4;
  node.summary.plan_seconds_mean = 0.25;
  node.summary.planned = 64;
  node.summary.delivered = 48;
  node.summary.steps_delivered = 3;
  node.summary.bad = 3;
  node.summary.memory_peak_bytes = 5'000'000'000;
  node.summary.measurements = 16;
  node.summary.prediction_error_ratio = {0.1, std::numeric_limits<double>::quiet_NaN(), 1.0 / 3};
  node.training.ranks.resize(2);
  node.training.ranks[0].predicted = {1, 0, 3};
  node.training.ranks[1].measured = {5, 0, 7};
  node.training.ranks[1].idle = 0.5;
  node.training.imbalance = 1.25;
  node.training.makespan_s = 2;
  node.training.lower_bound_s = 1.75;
  node.correction.on = false;
  node.correction.gain = 0.001;
  node.correction.rank_slowdowns = {1.2};
  for (auto& module : node.correction.modules) module.buckets.fill(1);
  node.correction.modules[2].buckets.at(3) = 1.6;
  node.ranks = 2;
  node.places = {"encoder, data 0, stage 0, tensor 0", "llm, data 0, stage 0, tensor 0"};
  node.queue.oldest = Position{1, 7, 0};
  node.training.sources = {{"captions", 12, 340, 1.5}, {"documents", 4, 9, 0.25}};
  node.stores = {{"s3://bucket", 70, 9000, 3, 2, 5, 1}};
  node.cache = {.hits = 40, .hit_bytes = 5000, .misses = 7, .kept_bytes = 800, .evicted = 2};
  return node;
}

// `name{label="value",...}` as written -> value, of all families.
std::map<std::string, double> values_of(const NodeMetrics& node) {
  std::map<std::string, double> values;
  for (const MetricFamily& family : read_metrics(prometheus_text(node))) {
    values.insert(family.series.begin(), family.series.end());
  }
  return values;
}

TEST(Metrics, TheTextSaysWhatTheSnapshotSays) {
  const auto values = values_of(some_metrics());
  EXPECT_EQ(values.at("isocost_uptime_seconds"), 12.5);
  EXPECT_EQ(values.at("isocost_epoch"), 1);
  EXPECT_EQ(values.at("isocost_step"), 7);
  EXPECT_EQ(values.at("isocost_planning_seconds_total"), 1);
  EXPECT_EQ(values.at("isocost_samples_planned_total"), 64);
  EXPECT_EQ(values.at("isocost_samples_delivered_total"), 48);
  EXPECT_EQ(values.at("isocost_steps_delivered_total"), 3);
  EXPECT_EQ(values.at("isocost_samples_bad_total"), 3);
  EXPECT_EQ(values.at("isocost_memory_peak_bytes"), 5'000'000'000);
  EXPECT_EQ(values.at(R"(isocost_predicted_seconds_total{module="llm",rank="0"})"), 3);
  EXPECT_EQ(values.at(R"(isocost_predicted_seconds_total{module="llm",rank="1"})"), 0);
  EXPECT_EQ(values.at(R"(isocost_measured_seconds_total{module="vision",rank="1"})"), 5);
  EXPECT_EQ(values.at(R"(isocost_rank_idle_seconds_total{rank="1"})"), 0.5);
  EXPECT_EQ(values.at("isocost_plan_imbalance_ratio"), 1.25);
  EXPECT_EQ(values.at(R"(isocost_rank_place{rank="1",place="llm, data 0, stage 0, tensor 0"})"), 1);
  EXPECT_EQ(values.at("isocost_correction_enabled"), 1);
  EXPECT_EQ(values.at("isocost_correction_on"), 0);
  EXPECT_EQ(values.at("isocost_correction_gain_ratio"), 0.001);
  EXPECT_EQ(values.at(R"(isocost_rank_slowdown{rank="0"})"), 1.2);
  EXPECT_EQ(values.at(R"(isocost_rank_slowdown{rank="1"})"), 1);  // nothing learned of it
  EXPECT_EQ(values.at(R"(isocost_source_samples_sent_total{source="captions"})"), 12);
  EXPECT_EQ(values.at(R"(isocost_source_label_tokens_sent_total{source="captions"})"), 340);
  EXPECT_EQ(values.at(R"(isocost_source_predicted_seconds_total{source="captions"})"), 1.5);
  // Bucket 3 begins at 16 · 2^1.5 = 45.3 units.
  EXPECT_EQ(values.at(R"(isocost_correction_factor{module="llm",bucket="46"})"), 1.6);
  EXPECT_EQ(values.at(R"(isocost_correction_factor{module="vision",bucket="0"})"), 1);
  EXPECT_EQ(values.at(R"(isocost_prediction_error_ratio{module="llm"})"), 1.0 / 3);
}

TEST(Metrics, ServersOfShardsHaveFamiliesOfTheirOwn) {
  NodeMetrics node = some_metrics();
  const auto values = values_of(node);
  EXPECT_EQ(values.at(R"(isocost_store_requests_total{store="s3://bucket"})"), 70);
  EXPECT_EQ(values.at(R"(isocost_store_received_bytes_total{store="s3://bucket"})"), 9000);
  EXPECT_EQ(values.at(R"(isocost_store_retries_total{store="s3://bucket"})"), 3);
  EXPECT_EQ(values.at(R"(isocost_store_throttled_total{store="s3://bucket"})"), 2);
  EXPECT_EQ(values.at(R"(isocost_store_requests_in_flight{store="s3://bucket"})"), 5);
  EXPECT_EQ(values.at(R"(isocost_store_credential_renewals_total{store="s3://bucket"})"), 1);
  EXPECT_EQ(values.at("isocost_cache_hits_total"), 40);
  EXPECT_EQ(values.at("isocost_cache_hit_bytes_total"), 5000);
  EXPECT_EQ(values.at("isocost_cache_misses_total"), 7);
  EXPECT_EQ(values.at("isocost_cache_kept_bytes_total"), 800);
  EXPECT_EQ(values.at("isocost_cache_damaged_total"), 0);
  EXPECT_EQ(values.at("isocost_cache_evicted_total"), 2);
  node.stores.clear();
  EXPECT_EQ(prometheus_text(node).find("isocost_store_"), std::string::npos);
}

TEST(Metrics, OneDataSetHasNoFamilyOfSources) {
  NodeMetrics node = some_metrics();
  EXPECT_NE(prometheus_text(node).find("isocost_source_"), std::string::npos);
  node.training.sources.clear();
  EXPECT_EQ(prometheus_text(node).find("isocost_source_"), std::string::npos);
}

TEST(Metrics, UnknownValuesAreLeftOut) {
  NodeMetrics node = some_metrics();
  EXPECT_FALSE(values_of(node).contains(R"(isocost_prediction_error_ratio{module="audio"})"));
  node.queue.oldest.reset();
  EXPECT_FALSE(values_of(node).contains("isocost_epoch"));
}

TEST(Metrics, DisabledCorrectionIsNotReportedAsOn) {
  NodeMetrics node = some_metrics();
  node.correct = false;
  node.correction.on = true;
  EXPECT_EQ(values_of(node).at("isocost_correction_on"), 0);
}

// The page is complete: each family has a series, all of a family have its labels, and none comes
// twice.
TEST(Metrics, EveryFamilyHasSeriesOfItsLabels) {
  const std::string text = prometheus_text(some_metrics());
  std::size_t lines = 0;
  for (const MetricFamily& family : read_metrics(text)) {
    EXPECT_FALSE(family.series.empty()) << family.name;
    lines += 2 + family.series.size();
    for (const auto& [series, value] : family.series) {
      std::string form = family.name;
      for (const std::string& label : family.labels) {
        form += (label == family.labels.front() ? "\\{" : ",") + label + "=\"[^\"]+\"";
      }
      if (!family.labels.empty()) form += "\\}";
      EXPECT_TRUE(std::regex_match(series, std::regex(form))) << series;
    }
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), lines);
}

TEST(Metrics, NamesKeepToPrometheussConventions) {
  std::set<std::string> names;
  for (const MetricFamily& family : read_metrics(prometheus_text(some_metrics()))) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(family.name.starts_with("isocost_")) << family.name;
    EXPECT_EQ(family.type, family.name.ends_with("_total") ? "counter" : "gauge") << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

std::string table_of_families() {
  std::string out = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricFamily& family : read_metrics(prometheus_text(some_metrics()))) {
    std::string labels;
    for (const std::string& label : family.labels) {
      labels += (labels.empty() ? "`" : ", `") + label + "`";
    }
    out +=
        "| `" + family.name + "` | " + family.type + " | " + labels + " | " + family.help + " |\n";
  }
  return out;
}

TEST(Metrics, DocsListEveryFamily) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/docs/metric_list.md");
  const std::string docs((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(docs.find(table_of_families()), std::string::npos)
      << "docs/metric_list.md must hold this table:\n"
      << table_of_families();
}

}  // namespace
}  // namespace isocost
