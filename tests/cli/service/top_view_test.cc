#include "cli/service/top_view.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "loader/metrics/status_json.h"

namespace isocost::cli {
namespace {

constexpr const char* kUrl = "http://127.0.0.1:9464/status.json";

NodeMetrics node_at(double uptime, double scale, std::size_t ranks = 2) {
  NodeMetrics node;
  node.uptime_s = uptime;
  node.decoded_bytes = static_cast<std::int64_t>(1000 * scale);
  node.summary.steps = static_cast<std::uint64_t>(9 * scale);
  node.summary.steps_delivered = static_cast<std::uint64_t>(4 * scale);
  node.summary.planned = static_cast<std::uint64_t>(144 * scale);
  node.summary.delivered = static_cast<std::uint64_t>(64 * scale);
  node.summary.prediction_error_ratio = {0.05, 0.06, 0.07};
  node.training.ranks.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    RankTotals& rank = node.training.ranks[r];
    rank.predicted = {scale, 0, 2 * scale};
    rank.measured = {scale, 0, 4 * scale};
    rank.busy = (r == 0 ? 3 : 4) * scale;
    rank.idle = (r == 0 ? 1 : 0) * scale;
    rank.data_wait = 0.5 * scale;
  }
  for (auto& module : node.correction.modules) module.buckets.fill(1);
  node.correction.modules[2].buckets.at(4) = 1.6;
  return node;
}

// Returns the metrics in the form that `isocost top` receives.
NodeMetrics fetched(const NodeMetrics& node) {
  auto status = parse_status(status_json(node));
  EXPECT_TRUE(status.has_value()) << status.error().message();
  return *std::move(status);
}

TEST(TopView, CountsFromTheStartWithOneSnapshot) {
  const NodeMetrics now = fetched(node_at(10, 2));
  const auto json = nlohmann::json::parse(top_json({kUrl, now, NodeMetrics{}}));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["url"], kUrl);
  EXPECT_EQ(json["window_s"], 10);
  EXPECT_DOUBLE_EQ(json["samples_per_s"].get<double>(), 12.8);
  EXPECT_EQ(json["decoded_bytes_per_s"], 200);
  EXPECT_DOUBLE_EQ(json["idle_fraction"].get<double>(), 1.0 / 8);
  EXPECT_DOUBLE_EQ(json["data_wait_fraction"].get<double>(), 0.1);
  EXPECT_EQ(json["modules"]["llm"]["measured_s"], 16);
  EXPECT_EQ(json["modules"]["llm"]["prediction_error_ratio"], 0.07);
  EXPECT_EQ(json["modules"]["llm"]["factors"]["64"], 1.6);
  EXPECT_EQ(json["ranks"][1]["modules"]["llm"]["predicted_s"], 4);
  EXPECT_EQ(json["node"]["samples_delivered_total"], 128);
}

TEST(TopView, ShowsThePlacesOfALayout) {
  NodeMetrics node = node_at(10, 2);
  node.places = {"encoder, data 0, stage 0, tensor 0", "llm, data 0, stage 0, tensor 0"};
  const NodeMetrics now = fetched(node);
  const std::string table = top_table({kUrl, now, NodeMetrics{}}, 8);
  EXPECT_NE(table.find("\n      llm, data 0, stage 0, tensor 0\n"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(top_json({kUrl, now, NodeMetrics{}}));
  EXPECT_EQ(json["ranks"][0]["place"], "encoder, data 0, stage 0, tensor 0");
}

TEST(TopView, ShowsServersAndTheCacheWhereThereAreSome) {
  NodeMetrics node = node_at(10, 2);
  const std::string without = top_table({kUrl, fetched(node), NodeMetrics{}}, 8);
  EXPECT_EQ(without.find("servers"), std::string::npos) << without;
  EXPECT_EQ(without.find("cache"), std::string::npos) << without;
  node.stores = {{"s3://bucket", 70, 3 << 20, 3, 2, 5, 1}, {"http://\x1B[31m", 1, 2, 3, 4, 5, 6}};
  node.cache = {.hits = 30, .hit_bytes = 2 << 20, .misses = 10, .kept_bytes = 3 << 20};
  const std::string table = top_table({kUrl, fetched(node), NodeMetrics{}}, 8);
  EXPECT_NE(table.find("s3://bucket"), std::string::npos) << table;
  EXPECT_NE(table.find("http://?[31m"), std::string::npos) << table;
  EXPECT_NE(table.find("70 requests"), std::string::npos) << table;
  EXPECT_NE(table.find("30 reads (75.00 %)"), std::string::npos) << table;
  EXPECT_NE(table.find("10 misses"), std::string::npos) << table;
}

TEST(TopView, CountsBetweenTwoSnapshots) {
  const NodeMetrics before = fetched(node_at(10, 2));
  const NodeMetrics now = fetched(node_at(14, 3));
  const auto json = nlohmann::json::parse(top_json({kUrl, now, before}));
  EXPECT_EQ(json["window_s"], 4);
  EXPECT_EQ(json["samples_per_s"], 16);
  EXPECT_EQ(json["steps_per_s"], 1);
  EXPECT_EQ(json["modules"]["vision"]["predicted_s"], 2);
  EXPECT_EQ(json["ranks"][0]["busy_s"], 3);
}

TEST(TopView, ARestartedNodeCountsFromItsStart) {
  const NodeMetrics before = fetched(node_at(1000, 50));
  const NodeMetrics now = fetched(node_at(10, 2));
  const auto json = nlohmann::json::parse(top_json({kUrl, now, before}));
  EXPECT_EQ(json["window_s"], 10);
  EXPECT_EQ(json["modules"]["llm"]["measured_s"], 16);
}

TEST(TopView, UnknownNumbersAreNull) {
  const NodeMetrics now = fetched(NodeMetrics{});
  const auto json = nlohmann::json::parse(top_json({kUrl, now, NodeMetrics{}}));
  EXPECT_TRUE(json["samples_per_s"].is_null());
  EXPECT_TRUE(json["idle_fraction"].is_null());
  EXPECT_EQ(json["ranks"].size(), 0U);
}

TEST(TopView, TheTableShowsTheBusiestRanks) {
  const NodeMetrics now = fetched(node_at(10, 2, 40));
  const std::string table = top_table({kUrl, now, NodeMetrics{}}, 3);
  EXPECT_NE(table.find("\n    1    1.000         8   0.00 %  10.00 %      0.00 %           -    "
                       "-50.00 %\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("\n    0    1.000"), std::string::npos) << table;  // the least busy
  EXPECT_NE(table.find("37 less busy ranks not shown"), std::string::npos) << table;
  EXPECT_NE(table.find(" 1.000, 64: 1.600\n"), std::string::npos) << table;
  EXPECT_NE(table.find("-50.00 %"), std::string::npos) << table;  // the LLM takes twice as long
  EXPECT_NE(table.find("12.8 samples/s"), std::string::npos) << table;
}

TEST(TopView, SourcesOfAMixtureAreCountedBetweenTwoSnapshots) {
  NodeMetrics start = node_at(10, 2);
  EXPECT_EQ(top_table({kUrl, fetched(start), NodeMetrics{}}, 3).find("source"), std::string::npos);
  EXPECT_FALSE(
      nlohmann::json::parse(top_json({kUrl, fetched(start), NodeMetrics{}})).contains("sources"));
  start.training.sources = {{"captions", 100, 1000, 2}, {"documents", 50, 900, 1}};
  NodeMetrics later = node_at(20, 3);
  later.training.sources = {{"captions", 130, 1300, 2.5}, {"documents", 140, 1900, 2.5}};
  const NodeMetrics before = fetched(start);
  const NodeMetrics now = fetched(later);
  const std::string table = top_table({kUrl, now, before}, 3);
  EXPECT_NE(table.find("        90  75.00 %         1000         1.5  75.00 %  documents\n"
                       "        30  25.00 %          300         0.5  25.00 %  captions\n"),
            std::string::npos)
      << table;
  const auto json = nlohmann::json::parse(top_json({kUrl, now, before}));
  EXPECT_EQ(json["sources"][0], nlohmann::json::parse(R"({"source": "captions", "samples_sent": 30,
                                      "label_tokens_sent": 300, "predicted_s": 0.5})"));
}

TEST(TopView, SixteenSourcesAreShown) {
  NodeMetrics node = node_at(10, 2);
  for (std::uint64_t s = 0; s < 100; ++s) {
    node.training.sources.push_back({"s" + std::to_string(s), s, 0, 0});
  }
  node.training.sources[99].name = "caf\xC3\xA9\x1B";
  const std::string table = top_table({kUrl, fetched(node), NodeMetrics{}}, 3);
  EXPECT_NE(table.find("84 other sources not shown"), std::string::npos) << table;
  EXPECT_NE(table.find("  caf???\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  s84\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("  s83\n"), std::string::npos) << table;
}

void expect_to_fit(const std::string& table) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

// Returns metrics like those of a node that has run for months with many ranks.
NodeMetrics large_node() {
  NodeMetrics node = node_at(3e7, 1.23456e6, 12'000);
  node.ranks = node.ranks_present = 12'000;
  node.queue = {.steps = 1000, .planned = 123'456'789, .unacknowledged = 123'456, .oldest = {}};
  node.queue.oldest.emplace().step = 123'456'789;
  node.summary.delivered = node.summary.bad = node.summary.decoded_again = 123'456'789'012;
  node.summary.measurements = node.summary.measurements_rejected = 123'456'789'012;
  node.summary.prediction_error_ratio = {12.3, 4.567e9, 0.123456};
  node.memory_bytes = node.memory_budget_bytes = node.waiting_bytes = 1'234'567'890'123'456;
  node.waiting_samples = 1'234'567'890;
  node.stores = {{"s3://" + std::string(63, 'b'), 123'456'789'012, 1'234'567'890'123'456,
                  123'456'789, 123'456'789, 128, 9}};
  node.cache = {.hits = 123'456'789'012, .hit_bytes = 1'234'567'890'123'456, .misses = 123'456'789};
  node.training.imbalance = 123.4567;
  node.training.makespan_s = node.training.lower_bound_s = 123456.7;
  node.training.sources = {
      {std::string(100, 'n'), std::uint64_t{1} << 62, std::uint64_t{1} << 62, 1e300}};
  node.correction.reprofile_suggested = true;
  node.layout_gain = 12'345.6;
  node.correction.drifts = 1'234'567;
  for (auto& module : node.correction.modules) {
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      module.buckets.at(b) = 10.123 + static_cast<double>(b);
    }
    module.fixed = 99.123;
  }
  node.correction.modules[2].buckets.back() = 1e-2;
  return node;
}

TEST(TopView, EveryLineFitsInto80Columns) {
  expect_to_fit(top_table({kUrl, NodeMetrics{}, NodeMetrics{}}, 64));
  expect_to_fit(top_table({kUrl, fetched(node_at(181, 2, 8)), NodeMetrics{}}, 64));
  NodeMetrics node = large_node();
  const std::string long_url = "http://" + std::string(200, 'x') + ":9464/status.json";
  expect_to_fit(top_table({long_url, fetched(node), NodeMetrics{}}, 64));
  node.places.assign(12'000, "encoder, data 1234, stage 12, tensor 12");
  expect_to_fit(top_table({kUrl, fetched(node), NodeMetrics{}}, 64));
}

TEST(TopView, TheMostDifferentFactorIsShown) {
  NodeMetrics node = node_at(10, 2);
  node.correction.modules[2].buckets.at(6) = 1.2;
  const std::string table = top_table({kUrl, fetched(node), NodeMetrics{}}, 8);
  EXPECT_NE(table.find(" 1.000, 64: 1.600 +1\n"), std::string::npos) << table;
}

TEST(TopView, SaysOnceWhetherCorrectionIsOnPausedOrOff) {
  NodeMetrics node = node_at(10, 2);
  const std::string on = top_table({kUrl, node, NodeMetrics{}}, 0);
  EXPECT_NE(on.find("correction  on: "), std::string::npos) << on;
  EXPECT_EQ(on.find("correction  "), on.rfind("correction  ")) << on;
  node.correction.on = false;
  node.correction.reprofile_suggested = true;
  const std::string paused = top_table({kUrl, node, NodeMetrics{}}, 0);
  EXPECT_NE(paused.find("correction  paused: "), std::string::npos) << paused;
  EXPECT_NE(paused.find("(measure the model profile again)"), std::string::npos) << paused;
  node.correct = false;
  EXPECT_NE(top_table({kUrl, node, NodeMetrics{}}, 0).find("correction  off (correct = off): "),
            std::string::npos);
}

TEST(TopView, SaysWhetherAnotherLayoutWouldBeFaster) {
  NodeMetrics node = node_at(10, 2);
  EXPECT_EQ(top_table({kUrl, fetched(node), NodeMetrics{}}, 0).find("layout "), std::string::npos);
  node.layout_gain = 0.07;
  const std::string faster = top_table({kUrl, fetched(node), NodeMetrics{}}, 0);
  EXPECT_NE(faster.find("another one would be 7.00 % faster"), std::string::npos) << faster;
  node.layout_gain = 0;
  const std::string best = top_table({kUrl, fetched(node), NodeMetrics{}}, 0);
  EXPECT_NE(best.find("none found that is faster"), std::string::npos) << best;
}

}  // namespace
}  // namespace isocost::cli
