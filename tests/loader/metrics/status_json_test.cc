// The page /status.json: a reader gets back what the snapshot held, and anything else is refused.

#include "loader/metrics/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "loader/metrics/prometheus_text.h"
#include "tests/loader/metrics/metric_text.h"

namespace isocost {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

NodeMetrics some_metrics() {
  NodeMetrics node;
  node.uptime_s = 12.5;
  node.summary.steps = 4;
  node.summary.plan_seconds_mean = 0.25;
  node.summary.memory_peak_bytes = 5'000'000'000;
  node.summary.prediction_error_ratio = {0.1, kNan, 1.0 / 3};
  node.summary.reprofiles = 2;
  node.summary.reprofiles_kept = 1;
  node.summary.reprofile_seconds = 2.5;
  node.layout_gain = 0.07;
  node.training.ranks.resize(2);
  node.training.ranks[0].predicted = {1, 0, 3};
  node.training.ranks[1].measured = {5, 0, 7};
  node.training.ranks[1].idle = 0.5;
  node.training.ranks[1].forward = 2.25;
  node.training.imbalance = 1.25;
  node.training.makespan_s = 2;
  node.training.lower_bound_s = 1.75;
  node.correction.on = false;
  node.correction.gain = -1e-17;  // rounding
  node.correction.rank_slowdowns = {1.2};
  for (auto& module : node.correction.modules) module.buckets.fill(1);
  node.correction.modules[2].buckets.at(3) = 1.6;
  node.ranks = 2;
  node.places = {"encoder, data 0, stage 0, tensor 0", "llm, data 0, stage 0, tensor 0"};
  node.queue.oldest = Position{1, 7, 0};
  node.decoded_bytes = std::numeric_limits<std::int64_t>::max();
  return node;
}

NodeMetrics read_back(const NodeMetrics& node) {
  auto read = parse_status(status_json(node));
  EXPECT_TRUE(read.has_value()) << read.error().message();
  return *std::move(read);
}

// The document with one edit; the message of the error.
std::string refused(const std::function<void(json&)>& edit, ErrorCode code = ErrorCode::kCorrupt) {
  json document = json::parse(status_json(some_metrics()));
  edit(document);
  const auto read = parse_status(document.dump());
  EXPECT_FALSE(read.has_value()) << document.dump();
  if (read) return "accepted";
  EXPECT_EQ(read.error().code(), code) << read.error().message();
  return read.error().message();
}

TEST(StatusJson, IsReadBack) {
  const NodeMetrics node = some_metrics();
  const NodeMetrics read = read_back(node);
  EXPECT_EQ(status_json(read), status_json(node));
  EXPECT_EQ(read.uptime_s, 12.5);
  EXPECT_EQ(read.summary.plan_seconds_mean, 0.25);
  EXPECT_EQ(read.summary.memory_peak_bytes, 5'000'000'000);
  EXPECT_EQ(read.summary.prediction_error_ratio[2], 1.0 / 3);
  EXPECT_EQ(read.summary.reprofiles, 2U);
  EXPECT_EQ(read.summary.reprofiles_kept, 1U);
  EXPECT_EQ(read.summary.reprofile_seconds, 2.5);
  EXPECT_EQ(read.layout_gain, 0.07);
  EXPECT_EQ(read.training.ranks, node.training.ranks);
  EXPECT_EQ(read.training.imbalance, 1.25);
  EXPECT_EQ(read.correction.gain, 0);
  EXPECT_EQ(read.correction.rank_slowdowns, (std::vector<double>{1.2, 1}));
  EXPECT_EQ(read.correction.modules[2].buckets, node.correction.modules[2].buckets);
  EXPECT_EQ(read.places, node.places);
  EXPECT_EQ(read.queue.oldest, node.queue.oldest);
  EXPECT_EQ(read.decoded_bytes, node.decoded_bytes);
}

TEST(StatusJson, TheSourcesOfAMixtureAreReadBack) {
  NodeMetrics node = some_metrics();
  EXPECT_FALSE(json::parse(status_json(node)).contains("sources"));
  EXPECT_TRUE(read_back(node).training.sources.empty());
  node.training.sources = {{"captions", 12, 340, 1.5}, {"documents", std::uint64_t{1} << 60, 9, 0}};
  EXPECT_EQ(read_back(node).training.sources, node.training.sources);
  node.stores = {{"s3://bucket", 70, 9000, 3, 2, 5, 1}, {"https://host", 1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(read_back(node).stores, node.stores);
  node.cache = {
      .hits = 1, .hit_bytes = 2, .misses = 3, .kept_bytes = 4, .damaged = 5, .evicted = 6};
  EXPECT_EQ(read_back(node).cache, node.cache);
  const json sources = json::parse(status_json(node))["sources"];
  EXPECT_EQ(sources["source"], json::parse(R"(["captions", "documents"])"));
  EXPECT_EQ(sources["source_label_tokens_sent_total"], json::parse("[340, 9]"));
  for (const auto& [edit, says] : std::vector<std::pair<std::string, std::string>>{
           {R"({"source": ["a"]})", "source_samples_sent_total"},
           {R"({"source": ["a", "b", "c"]})", "must have 3 entries, as source has"},
           {R"({"source_samples_sent_total": [1, -2]})", "source_samples_sent_total"},
           {R"({"source_predicted_seconds_total": [1, -2]})", "source_predicted_seconds_total"},
           {R"({"source_samples_sent_total": [1, 1.5]})", "source_samples_sent_total"},
           {R"({"more": 1})", "more"}}) {
    json document = json::parse(status_json(node));
    document["sources"].update(json::parse(edit));
    const auto read = parse_status(document.dump());
    ASSERT_FALSE(read) << edit;
    EXPECT_THAT(read.error().message(), HasSubstr(says));
  }
}

TEST(StatusJson, UnknownValuesAreLeftOutAndReadBackAsNotKnown) {
  NodeMetrics node = some_metrics();
  node.queue.oldest.reset();
  node.training.makespan_s = kNan;
  const json document = json::parse(status_json(node));
  EXPECT_FALSE(document["modules"]["audio"].contains("prediction_error_ratio"));
  EXPECT_FALSE(document["node"].contains("epoch"));
  const NodeMetrics read = read_back(node);
  EXPECT_TRUE(std::isnan(read.summary.prediction_error_ratio[1]));
  EXPECT_TRUE(std::isnan(read.training.makespan_s));
  EXPECT_FALSE(read.queue.oldest.has_value());
}

TEST(StatusJson, ANodeWithoutAJobIsReadBack) {
  const NodeMetrics read = read_back(NodeMetrics{});
  EXPECT_TRUE(read.training.ranks.empty());
  EXPECT_TRUE(read.places.empty());
  EXPECT_TRUE(std::isnan(read.training.imbalance));
}

TEST(StatusJson, DisabledCorrectionIsNotReportedAsOn) {
  NodeMetrics node = some_metrics();
  node.correct = false;
  node.correction.on = true;
  EXPECT_FALSE(read_back(node).correction.on);
}

// One vocabulary: whoever knows /metrics knows this page.
TEST(StatusJson, HasTheNamesOfTheMetrics) {
  const json document = json::parse(status_json(some_metrics()));
  const json& node = document["node"];
  for (const MetricFamily& family : read_metrics(prometheus_text(some_metrics()))) {
    const std::string name = family.name.substr(std::string("isocost_").size());
    const json* place = &node;
    if (family.labels == std::vector<std::string>{"module"} ||
        family.labels == std::vector<std::string>{"module", "bucket"}) {
      place = &document["modules"]["llm"];
    } else if (!family.labels.empty()) {
      place = &document["ranks"];
    }
    EXPECT_TRUE(place->contains(name)) << name;
  }
}

TEST(StatusJson, NamesTheKeyThatIsWrong) {
  EXPECT_THAT(refused([](json& d) { d["node"].erase("ranks"); }),
              HasSubstr("'node.ranks' is missing"));
  EXPECT_THAT(refused([](json& d) { d["node"].erase("uptime_seconds"); }),
              HasSubstr("'node.uptime_seconds' is missing"));
  EXPECT_THAT(refused([](json& d) { d["node"]["more"] = 1; }),
              HasSubstr("'node.more' is not a known key"));
  EXPECT_THAT(refused([](json& d) { d["more"] = 1; }), HasSubstr("'more' is not a known key"));
  EXPECT_THAT(refused([](json& d) { d["node"]["ranks"] = -1; }), HasSubstr("'node.ranks' must be"));
  EXPECT_THAT(refused([](json& d) { d["node"]["step"] = std::uint64_t{1} << 32U; }),
              HasSubstr("'node.step' must be between 0 and 4294967295"));
  EXPECT_THAT(refused([](json& d) { d["node"].erase("step"); }),
              HasSubstr("'node.step' is missing"));
  EXPECT_THAT(refused([](json& d) { d["node"]["correction_on"] = 1; }),
              HasSubstr("'node.correction_on' must be true or false"));
  EXPECT_THAT(refused([](json& d) { d["modules"].erase("audio"); }),
              HasSubstr("'modules.audio' is missing"));
  EXPECT_THAT(refused([](json& d) { d["modules"]["llm"]["correction_factor"]["64"] = "1"; }),
              HasSubstr("'modules.llm.correction_factor.64' must be a number"));
  EXPECT_THAT(refused([](json& d) { d["ranks"]["rank_busy_seconds_total"] = {1}; }),
              HasSubstr("'ranks.rank_busy_seconds_total' must have 2 entries"));
  EXPECT_THAT(refused([](json& d) { d["ranks"]["measured_seconds_total"]["llm"] = {1, -1}; }),
              HasSubstr("'ranks.measured_seconds_total.llm.1' must be a finite number"));
  EXPECT_THAT(refused([](json& d) { d["ranks"]["rank_place"] = {"llm"}; }),
              HasSubstr("'ranks.rank_place' must have 2 entries"));
}

TEST(StatusJson, ListsAreBounded) {
  EXPECT_THAT(refused([](json& d) { d["ranks"]["rank_slowdown"] = std::vector<int>(100'001, 1); }),
              HasSubstr("has more than 100000 entries"));
}

// A terminal would obey them.
TEST(StatusJson, ControlCharactersAreRefused) {
  EXPECT_THAT(refused([](json& d) { d["ranks"]["rank_place"][0] = "\x1b[2J"; }),
              HasSubstr("'ranks.rank_place' must name places"));
}

TEST(StatusJson, OtherProgramsAndVersionsAreRefused) {
  EXPECT_THAT(refused([](json& d) { d["version"] = 3; }, ErrorCode::kUnsupported),
              HasSubstr("use the isocost top of the node's own version"));
  EXPECT_THAT(refused([](json& d) { d.erase("version"); }), HasSubstr("'version' is missing"));
  EXPECT_THAT(refused([](json& d) { d["kind"] = "data profile"; }, ErrorCode::kUnsupported),
              HasSubstr("not the status of an Isocost node"));
  for (const char* text : {"", "<html>", "isocost_uptime_seconds 1\n", "[]", "{", "{}"}) {
    EXPECT_FALSE(parse_status(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace isocost
