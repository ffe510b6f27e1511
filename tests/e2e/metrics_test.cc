// A real node and real trainers, observed through its pages and `isocost top` while they train.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/service/http_get.h"
#include "loader/config/option_table.h"
#include "loader/metrics/status_json.h"
#include "loader/node/step_preview.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Metrics : public LoopTest {
 protected:
  NodeOptions watched(std::int64_t ranks) const {
    NodeOptions watched = options(ranks);
    watched.service.metrics = "127.0.0.1:0";
    return watched;
  }
};

// Seconds of a rank of an emulated machine. The second rank takes a third longer than predicted.
double seconds_of(const Microbatch& microbatch, std::int64_t rank, std::size_t module) {
  const double predicted = microbatch.header.predicted_seconds.at(module);
  return predicted * (rank == 1 ? 4.0 / 3 : 1);
}

void train(std::int64_t rank, const std::string& endpoint) {
  ClientOptions options;
  options.endpoint = endpoint;
  options.rank = static_cast<std::int32_t>(rank);
  auto client = Client::connect(options);
  ASSERT_TRUE(client.has_value()) << client.error().message();
  for (;;) {
    const auto next = (*client)->next({});
    ASSERT_TRUE(next.has_value()) << next.error().message();
    if (!next->has_value()) break;
    Report report;
    report.position = (*next)->header.position;
    for (std::size_t i = 0; i < kModules; ++i) report.seconds.at(i) = seconds_of(**next, rank, i);
    ASSERT_TRUE((*client)->report(report));
  }
  (*client)->close();
}

NodeMetrics fetch(const std::string& metrics_url) {
  const auto text = cli::http_get(cli::status_url(metrics_url).value(), {}, {});
  EXPECT_TRUE(text.has_value()) << text.error().message();
  auto status = parse_status(*text);
  EXPECT_TRUE(status.has_value()) << status.error().message();
  return *std::move(status);
}

// Runs the program; returns its standard output and exit status.
std::pair<std::string, int> isocost(const std::string& arguments) {
  const std::string command = ISOCOST_PROGRAM " " + arguments;
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  std::array<char, 4096> bytes{};
  while (const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), pipe)) {
    out.append(bytes.data(), got);
  }
  const int status = pclose(pipe);
  return {out, WEXITSTATUS(status)};
}

TEST_F(Metrics, MatchTheNodesSummary) {
  make_dataset(70);
  auto made = Node::create(watched(2), {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::unique_ptr<Node> node = *std::move(made);
  const std::string url = node->metrics_url();
  const NodeMetrics before = fetch(url);
  EXPECT_EQ(before.ranks, 2);
  EXPECT_EQ(before.ranks_present, 0);
  EXPECT_EQ(before.training.samples_sent, 0U);
  EXPECT_EQ(before.memory_budget_bytes, 256 * kMiB);
  const std::string picture = url.substr(0, url.rfind('/')) + "/timeline.svg";
  EXPECT_THAT(cli::http_get(picture, {}, {}).value(),
              HasSubstr("No step has been measured completely"));
  {
    std::vector<std::jthread> trainers;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      trainers.emplace_back([&, rank] { train(rank, node->endpoint()); });
    }
    const auto summary = node->run({});
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
  }
  const NodeSummary summary = node->summary();
  // One rank took a third longer than predicted, and correction had no time to learn it.
  const std::string drawn = cli::http_get(picture, {}, {}).value();
  const std::string last = "epoch 0, step " + std::to_string(summary.steps - 1) + ": ";
  EXPECT_THAT(drawn, AllOf(HasSubstr("predicted: " + last), HasSubstr("measured: " + last)));
  EXPECT_THAT(drawn, AllOf(HasSubstr(">rank 0<"), HasSubstr(">rank 1<")));
  const NodeMetrics now = fetch(url);
  EXPECT_EQ(now.summary.planned, 70U);
  EXPECT_EQ(now.summary.delivered, 70U);
  EXPECT_EQ(now.summary.steps_delivered, summary.steps);
  EXPECT_EQ(now.training.samples_sent, 70U);
  EXPECT_EQ(now.summary.steps, summary.steps);
  EXPECT_EQ(now.summary.epochs, 1U);
  EXPECT_EQ(now.summary.measurements, summary.measurements);
  EXPECT_EQ(now.summary.measurements_rejected, summary.measurements_rejected);
  EXPECT_EQ(now.summary.memory_peak_bytes, summary.memory_peak_bytes);
  EXPECT_EQ(now.queue.steps, 0U);
  EXPECT_EQ(now.queue.unacknowledged, 0U);
  EXPECT_GT(now.decoded_bytes, 0);
  EXPECT_GE(now.training.imbalance, 1);
  for (std::size_t i = 0; i < kModules; ++i) {
    EXPECT_DOUBLE_EQ(now.summary.prediction_error_ratio.at(i), summary.prediction_error_ratio.at(i))
        << i;
    const RankTotals& first = now.training.ranks.at(0);
    const RankTotals& second = now.training.ranks.at(1);
    // Each microbatch was planned with the slowdown learned by then; the surplus is measured.
    EXPECT_GT(first.predicted.at(i), 0) << i;
    EXPECT_NEAR(first.measured.at(i), first.predicted.at(i), 1e-9) << i;
    EXPECT_NEAR(second.measured.at(i), second.predicted.at(i) * 4 / 3, 1e-9) << i;
  }
  // The metrics of that node as text.
  EXPECT_THAT(cli::http_get(url, {}, {}).value(),
              AllOf(HasSubstr("\nisocost_samples_delivered_total 70\n"),
                    HasSubstr("\nisocost_epochs_planned_total 1\n")));
}

TEST_F(Metrics, CountTheSourcesOfAMixture) {
  make_dataset(48);
  const std::filesystem::path file = scratch() / "mixture.toml";
  std::ofstream(file) << "steps = 5\n"
                         "[[source]]\nname = \"b\"\npath = \"shards/*0.tar\"\nproportion = 3.0\n"
                         "[[source]]\nname = \"a\"\npath = \"shards/*[12].tar\"\n"
                         "proportion = 1.0\n";
  NodeOptions options = watched(2);
  options.data = file.string();
  options.plan.global_batch_size = 16;
  options = make_options({}, options).value();
  std::map<std::string, SourceTotals> expected;
  const auto preview = StepPreview::open(options, {}, {}).value();
  for (std::uint64_t step = 0; step < 5; ++step) {
    const PreviewedStep previewed = preview->step(0, step).value();
    for (const PreviewedSample& sample : previewed.samples) {
      const std::string name = sample.name.substr(0, sample.name.find('/'));
      expected[name].samples_sent += 1;
      expected[name].labels_sent += static_cast<std::uint64_t>(sample.load.label_tokens);
    }
  }
  ASSERT_EQ(expected.at("b").samples_sent, 60U);
  auto made = Node::create(options, {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::unique_ptr<Node> node = *std::move(made);
  {
    std::vector<std::jthread> trainers;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      trainers.emplace_back([&, rank] { train(rank, node->endpoint()); });
    }
    ASSERT_TRUE(node->run({}).has_value());
  }
  const NodeMetrics now = fetch(node->metrics_url());
  ASSERT_EQ(now.training.sources.size(), 2U);
  for (const SourceTotals& source : now.training.sources) {
    EXPECT_EQ(source.samples_sent, expected.at(source.name).samples_sent) << source.name;
    EXPECT_EQ(source.labels_sent, expected.at(source.name).labels_sent) << source.name;
    EXPECT_GT(source.predicted_s, 0) << source.name;
  }
  EXPECT_THAT(cli::http_get(node->metrics_url(), {}, {}).value(),
              HasSubstr("\nisocost_source_samples_sent_total{source=\"b\"} 60\n"));
  EXPECT_THAT(isocost("top --once " + node->metrics_url()).first, HasSubstr("  75.00 %"));
}

TEST_F(Metrics, CountStepsThatEveryRankMeasured) {
  make_dataset(48);
  auto made = Node::create(watched(2), {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::unique_ptr<Node> node = *std::move(made);
  std::vector<std::jthread> trainers;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    trainers.emplace_back([&, rank] { train(rank, node->endpoint()); });
  }
  ASSERT_TRUE(node->run({}).has_value());
  const NodeMetrics now = fetch(node->metrics_url());
  EXPECT_EQ(now.training.measured_steps, 3U);
  double busy = 0;
  double measured = 0;
  double wait = 0;
  for (const RankTotals& rank : now.training.ranks) {
    busy += rank.busy;
    wait += rank.data_wait;
    for (const double seconds : rank.measured) measured += seconds;
  }
  EXPECT_NEAR(busy, measured, 1e-9);
  EXPECT_GT(wait, 0);  // at least for the first microbatch, which had to be decoded
  EXPECT_GT(now.training.ranks.at(0).idle, 0);
}

TEST_F(Metrics, TopShowsARunningNode) {
  make_dataset(48);
  auto made = Node::create(watched(1), {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::unique_ptr<Node> node = *std::move(made);
  const std::string url = node->metrics_url();
  const std::jthread trainer([&] { train(0, node->endpoint()); });
  ASSERT_TRUE(node->run({}).has_value());

  const auto [json, json_status] = isocost("top --once --json " + url);
  EXPECT_EQ(json_status, 0);
  const auto document = nlohmann::json::parse(json);
  EXPECT_EQ(document["url"], cli::status_url(url).value());
  EXPECT_EQ(document["node"]["samples_delivered_total"], 48);
  EXPECT_GT(document["samples_per_s"], 0);
  EXPECT_GT(document["modules"]["llm"]["measured_s"], 0);
  EXPECT_EQ(document["ranks"].size(), 1U);

  // Without a terminal one table is printed, as with --once. The path may be left out.
  const auto [table, status] = isocost("top " + url.substr(0, url.rfind('/')));
  EXPECT_EQ(status, 0);
  EXPECT_NE(table.find("samples     48 delivered, 0 bad"), std::string::npos) << table;
  EXPECT_EQ(table.find('\033'), std::string::npos);
}

TEST_F(Metrics, EndWithTheNode) {
  make_dataset(16);
  std::string url;
  {
    const auto node = Node::create(watched(1), {}, {});
    ASSERT_TRUE(node.has_value()) << node.error().message();
    url = (*node)->metrics_url();
    fetch(url);
  }
  const auto gone = cli::http_get(url, {}, {});
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(gone.error().message().find("isocost serve --metrics"), std::string::npos)
      << gone.error().message();
}

TEST_F(Metrics, AreOffUnlessAskedFor) {
  make_dataset(16);
  const auto node = Node::create(options(1), {}, {});
  ASSERT_TRUE(node.has_value()) << node.error().message();
  EXPECT_EQ((*node)->metrics_url(), "");
}

// Several clients fetch the status again and again while a job trains: each one is complete, and
// counters only grow.
TEST_F(Metrics, CanBeFetchedWhileTraining) {
  make_dataset(70);
  NodeOptions long_job = watched(2);
  long_job.plan.epochs = 3;
  const auto made = Node::create(long_job, {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  Node& node = **made;
  std::vector<std::jthread> watchers;
  for (int i = 0; i < 2; ++i) {
    watchers.emplace_back([&node](const std::stop_token& stop) {
      std::uint64_t delivered = 0;
      while (!stop.stop_requested()) {
        const NodeMetrics now = fetch(node.metrics_url());
        EXPECT_GE(now.summary.delivered, delivered);
        EXPECT_LE(now.summary.delivered, now.summary.planned);
        EXPECT_LE(now.memory_bytes, now.memory_budget_bytes);
        delivered = now.summary.delivered;
      }
    });
  }
  std::vector<std::jthread> trainers;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    trainers.emplace_back([&, rank] {
      ClientOptions options;
      options.endpoint = node.endpoint();
      options.rank = static_cast<std::int32_t>(rank);
      const auto client = Client::connect(options);
      ASSERT_TRUE(client.has_value());
      while (!(*client)->epoch_end() || !(*client)->epoch_end()->last_epoch) {
        ASSERT_TRUE((*client)->next({}).has_value());
      }
      (*client)->close();
    });
  }
  const auto summary = node.run({});
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->delivered, 210U);
}

}  // namespace
}  // namespace isocost
