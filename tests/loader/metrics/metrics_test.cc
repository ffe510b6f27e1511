// The page /metrics holds the values of the snapshot, and docs/metrics.md lists every family.

#include "loader/metrics/prometheus_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace isocost {
namespace {

NodeMetrics some_metrics() {
  NodeMetrics node;
  node.uptime_s = 12.5;
  node.summary.steps = 4;
  node.summary.plan_seconds_mean = 0.25;
  node.summary.planned = 64;
  node.summary.delivered = 48;
  node.summary.steps_delivered = 3;
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

// `name{label="value",...}` as written -> value.
std::map<std::string, double> read(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t space = line.rfind(' ');
    const std::string series = line.substr(0, space);
    EXPECT_TRUE(values.emplace(series, std::stod(line.substr(space + 1))).second)
        << series << " comes twice";
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
  // Bucket 3 begins at 16 · 2^1.5 = 45.3 units.
  EXPECT_EQ(values.at(R"(isocost_correction_factor{module="llm",bucket="46"})"), 1.6);
  EXPECT_EQ(values.at(R"(isocost_correction_factor{module="vision",bucket="0"})"), 1);
  EXPECT_EQ(values.at(R"(isocost_prediction_error_ratio{module="llm"})"), 1.0 / 3);
}

TEST(Metrics, UnknownValuesAreLeftOut) {
  NodeMetrics node = some_metrics();
  EXPECT_FALSE(
      read(prometheus_text(node)).contains(R"(isocost_prediction_error_ratio{module="audio"})"));
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
  const std::regex label("[{,](\\w+)=\"");
  for (const auto& [series, value] : read(text)) {
    std::set<std::string>& names = labels[series.substr(0, series.find('{'))];
    for (std::sregex_iterator at(series.begin(), series.end(), label), end; at != end; ++at) {
      names.insert((*at)[1]);
    }
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

std::string table_of_families() {
  std::string out = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricFamilyInfo& family : metric_families()) {
    std::string labels;
    for (const std::string& label : family.labels) {
      labels += (labels.empty() ? "`" : ", `") + label + "`";
    }
    out += "| `" + family.name + "` | " + (family.counter ? "counter" : "gauge") + " | " + labels +
           " | " + family.help + " |\n";
  }
  return out;
}

TEST(Metrics, DocsListEveryFamily) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/docs/metrics.md");
  const std::string docs((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(docs.find(table_of_families()), std::string::npos)
      << "docs/metrics.md must hold this table:\n"
      << table_of_families();
}

}  // namespace
}  // namespace isocost
