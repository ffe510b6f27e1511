// The text of /metrics: read back, it says what the snapshot says; and docs/metrics.md says what it
// is.

#include "loader/metrics/prometheus_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loader/metrics/reader.h"

namespace isocost {
namespace {

NodeMetrics some_metrics() {
  NodeMetrics node;
  node.uptime_s = 12.5;
  node.summary.steps = 4;
  node.summary.plan_seconds_mean = 0.25;
  node.summary.delivered = 64;
  node.summary.bad = 3;
  node.summary.memory_peak_bytes = 5'000'000'000;
  node.summary.measurements = 16;
  node.summary.mape = {0.1, std::numeric_limits<double>::quiet_NaN(), 1.0 / 3};
  node.training.ranks.resize(2);
  node.training.ranks[0].predicted = {1, 0, 3};
  node.training.ranks[1].measured = {5, 0, 7};
  node.training.ranks[1].idle = 0.5;
  node.training.imbalance = 1.25;
  node.correction.on = false;
  node.correction.gain = 0.001;
  node.correction.rank_slowdowns = {1.2};
  for (auto& module : node.correction.modules) module.buckets.fill(1);
  node.correction.modules[2].buckets.at(3) = 1.6;
  node.ranks = 2;
  node.places = {"encoder, data 0, stage 0, tensor 0", "llm, data 0, stage 0, tensor 0"};
  node.queue.oldest = Position{1, 7, 0};
  return node;
}

// name{label="value",...} in the order of the text -> value.
std::map<std::string, double> read(const std::string& text) {
  const auto samples = parse_prometheus_text(text);
  EXPECT_TRUE(samples.has_value()) << samples.error().message();
  std::map<std::string, double> values;
  for (const MetricSample& sample : *samples) {
    std::string key = sample.name;
    for (const auto& [name, value] : sample.labels) key += " " + name + "=" + value;
    EXPECT_TRUE(values.emplace(key, sample.value).second) << key << " comes twice";
  }
  return values;
}

TEST(Metrics, TheTextSaysWhatTheSnapshotSays) {
  const auto values = read(prometheus_text(some_metrics()));
  EXPECT_EQ(values.at("isocost_uptime_seconds"), 12.5);
  EXPECT_EQ(values.at("isocost_epoch"), 1);
  EXPECT_EQ(values.at("isocost_step"), 7);
  EXPECT_EQ(values.at("isocost_planning_seconds_total"), 1);
  EXPECT_EQ(values.at("isocost_samples_planned_total"), 64);
  EXPECT_EQ(values.at("isocost_samples_bad_total"), 3);
  EXPECT_EQ(values.at("isocost_memory_peak_bytes"), 5'000'000'000);
  EXPECT_EQ(values.at("isocost_predicted_seconds_total module=llm rank=0"), 3);
  EXPECT_EQ(values.at("isocost_predicted_seconds_total module=llm rank=1"), 0);
  EXPECT_EQ(values.at("isocost_measured_seconds_total module=vision rank=1"), 5);
  EXPECT_EQ(values.at("isocost_rank_idle_seconds_total rank=1"), 0.5);
  EXPECT_EQ(values.at("isocost_plan_imbalance_ratio"), 1.25);
  EXPECT_EQ(values.at("isocost_rank_place rank=1 place=llm, data 0, stage 0, tensor 0"), 1);
  EXPECT_EQ(values.at("isocost_correction_enabled"), 1);
  EXPECT_EQ(values.at("isocost_correction_on"), 0);
  EXPECT_EQ(values.at("isocost_correction_gain_ratio"), 0.001);
  EXPECT_EQ(values.at("isocost_rank_slowdown rank=0"), 1.2);
  EXPECT_EQ(values.at("isocost_rank_slowdown rank=1"), 1);  // nothing learned of it
  // Bucket 3 begins at 16 · 2^1.5 = 45.3 units.
  EXPECT_EQ(values.at("isocost_correction_factor module=llm bucket=46"), 1.6);
  EXPECT_EQ(values.at("isocost_correction_factor module=vision bucket=0"), 1);
  EXPECT_EQ(values.at("isocost_prediction_error_ratio module=llm"), 1.0 / 3);
}

TEST(Metrics, WhatIsNotKnownIsLeftOut) {
  NodeMetrics node = some_metrics();
  EXPECT_FALSE(read(prometheus_text(node)).contains("isocost_prediction_error_ratio module=audio"));
  node.queue.oldest.reset();
  EXPECT_FALSE(read(prometheus_text(node)).contains("isocost_epoch"));
}

TEST(Metrics, CorrectionThatIsOffIsNotOn) {
  NodeMetrics node = some_metrics();
  node.correct = false;
  node.correction.on = true;
  EXPECT_EQ(read(prometheus_text(node)).at("isocost_correction_on"), 0);
}

TEST(Metrics, EveryFamilyHasHelpAndTypeAndItsLabels) {
  const std::string text = prometheus_text(some_metrics());
  std::map<std::string, std::set<std::string>> labels;
  const auto samples = parse_prometheus_text(text);
  ASSERT_TRUE(samples.has_value());
  for (const MetricSample& sample : *samples) {
    for (const auto& label : sample.labels) labels[sample.name].insert(label.first);
  }
  for (const MetricFamilyInfo& family : metric_families()) {
    EXPECT_NE(text.find("# HELP " + family.name + " " + family.help + "\n"), std::string::npos)
        << family.name;
    EXPECT_NE(text.find("# TYPE " + family.name + (family.counter ? " counter\n" : " gauge\n")),
              std::string::npos)
        << family.name;
    EXPECT_EQ(labels[family.name], std::set(family.labels.begin(), family.labels.end()))
        << family.name;
  }
}

TEST(Metrics, NamesKeepToPrometheussConventions) {
  std::set<std::string> names;
  for (const MetricFamilyInfo& family : metric_families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(family.name.starts_with("isocost_")) << family.name;
    EXPECT_EQ(family.counter, family.name.ends_with("_total")) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

TEST(Metrics, DocsListEveryFamily) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/docs/metrics.md");
  const std::string docs((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(docs.find(metric_table_markdown()), std::string::npos)
      << "docs/metrics.md must hold this table:\n"
      << metric_table_markdown();
}

TEST(MetricsReader, ReadsTheWholeFormat) {
  const auto samples = parse_prometheus_text(
      "# HELP a about\n"
      "\n"
      "a 1\r\n"
      "a_b:c{ x = \"1\" , y=\"q\\\"\\\\\\n\", } -2.5e-3 1700000000000\n"
      "inf{} +Inf\n"
      "nan NaN");
  ASSERT_TRUE(samples.has_value()) << samples.error().message();
  ASSERT_EQ(samples->size(), 4U);
  EXPECT_EQ((*samples)[1].name, "a_b:c");
  EXPECT_EQ((*samples)[1].label("x"), "1");
  EXPECT_EQ((*samples)[1].label("y"), "q\"\\\n");
  EXPECT_EQ((*samples)[1].label("z"), "");
  EXPECT_EQ((*samples)[1].value, -2.5e-3);
  EXPECT_EQ((*samples)[2].value, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*samples)[3].value));
}

TEST(MetricsReader, NamesTheLineThatIsBroken) {
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"1a 2", "a metric's name"},
      {"a", "a number"},
      {"a x", "a number"},
      {"a 1 x", "the end of the line"},
      {"a 1 2 3", "the end of the line"},
      {"a{x} 1", "= after a label's name"},
      {"a{x=1} 1", "a label's value in quotes"},
      {"a{x=\"1} 1", "a label's value in quotes"},
      {"a{x=\"\\", "a label's value in quotes"},
      {"a{x=\"1\" y=\"2\"} 1", ", or }"},
      {"a{,} 1", "a label's name"},
      {"a{x=\"1\",", "a label's name"},
      {"<html>", "a metric's name"},
  };
  for (const auto& [line, expected] : broken) {
    const auto samples = parse_prometheus_text("ok 1\n" + line);
    ASSERT_FALSE(samples.has_value()) << line;
    EXPECT_EQ(samples.error().code(), ErrorCode::kCorrupt);
    EXPECT_NE(samples.error().message().find("line 2 of the metrics: " + expected),
              std::string::npos)
        << line << ": " << samples.error().message();
  }
}

TEST(MetricsReader, BoundsTheLabels) {
  std::string line = "a{";
  for (int i = 0; i < 17; ++i) line += "x" + std::to_string(i) + "=\"1\",";
  EXPECT_FALSE(parse_prometheus_text(line + "} 1").has_value());
}

}  // namespace
}  // namespace isocost
