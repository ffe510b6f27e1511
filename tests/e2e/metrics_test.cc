// A real node and real trainers, looked at through /metrics and `isocost top` while they train.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/http_get.h"
#include "cli/top_view.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

using cli::Scrape;
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

// What a rank of an emulated machine takes: the second one is a third slower than the prediction.
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

Scrape look(const std::string& url) {
  const auto text = cli::http_get(url, {}, {});
  EXPECT_TRUE(text.has_value()) << text.error().message();
  auto scrape = cli::read_scrape(*text);
  EXPECT_TRUE(scrape.has_value()) << scrape.error().message();
  return *std::move(scrape);
}

// Standard output of the program; its status.
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

TEST_F(Metrics, SayWhatTheNodeSays) {
  make_dataset(70);
  auto made = Node::create(watched(2), {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::unique_ptr<Node> node = *std::move(made);
  const std::string url = node->metrics_url();
  const Scrape before = look(url);
  EXPECT_EQ(before.value("ranks"), 2);
  EXPECT_EQ(before.value("ranks_connected"), 0);
  EXPECT_EQ(before.value("samples_delivered_total"), 0);
  EXPECT_EQ(before.value("memory_budget_bytes"), 256 * kMiB);
  const std::string picture = url.substr(0, url.rfind('/')) + "/timeline.svg";
  EXPECT_THAT(cli::http_get(picture, {}, {}).value(), HasSubstr("No step has been measured"));
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
  const Scrape now = look(url);
  EXPECT_EQ(now.value("samples_planned_total"), 70);
  EXPECT_EQ(now.value("samples_delivered_total"), 70);
  EXPECT_EQ(now.value("steps_planned_total"), static_cast<double>(summary.steps));
  EXPECT_EQ(now.value("epochs_planned_total"), 1);
  EXPECT_EQ(now.value("measurements_total"), static_cast<double>(summary.measurements));
  EXPECT_EQ(now.value("measurements_rejected_total"),
            static_cast<double>(summary.reports_rejected));
  EXPECT_EQ(now.value("memory_peak_bytes"), static_cast<double>(summary.memory_peak_bytes));
  EXPECT_EQ(now.value("queue_steps"), 0);
  EXPECT_EQ(now.value("queue_unacknowledged_microbatches"), 0);
  EXPECT_GT(now.value("decoded_bytes_total"), 0);
  EXPECT_GE(now.value("plan_imbalance_ratio"), 1);
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<Module>(i)));
    EXPECT_DOUBLE_EQ(now.modules.at(name).error, summary.mape.at(i)) << name;
    const auto of = [&](std::int64_t rank) { return now.ranks.at(rank).modules.at(name); };
    // Each was planned at the slowdown that was learned by then; what took longer is seen.
    EXPECT_GT(of(0).predicted, 0) << name;
    EXPECT_NEAR(of(0).measured, of(0).predicted, 1e-9) << name;
    EXPECT_NEAR(of(1).measured, of(1).predicted * 4 / 3, 1e-9) << name;
  }
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
  const Scrape now = look(node->metrics_url());
  EXPECT_EQ(now.value("measured_steps_total"), 3);
  double busy = 0;
  double measured = 0;
  double wait = 0;
  for (const auto& [number, rank] : now.ranks) {
    busy += rank.busy;
    wait += rank.data_wait;
    for (const auto& [name, seconds] : rank.modules) measured += seconds.measured;
  }
  EXPECT_NEAR(busy, measured, 1e-9);
  EXPECT_GT(wait, 0);  // at least for the first microbatch, which had to be decoded
  EXPECT_GT(now.ranks.at(0).idle, 0);
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
  EXPECT_EQ(document["url"], url);
  EXPECT_EQ(document["node"]["samples_delivered_total"], 48);
  EXPECT_GT(document["samples_per_s"], 0);
  EXPECT_GT(document["modules"]["llm"]["measured_s"], 0);
  EXPECT_EQ(document["ranks"].size(), 1U);

  // Without a terminal one table is printed, as with --once; /metrics may be left out.
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
    look(url);
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

// Scrapes in a row from several clients while a job trains: every look is whole, and counters only
// grow.
TEST_F(Metrics, CanBeLookedAtWhileTraining) {
  make_dataset(70);
  NodeOptions long_job = watched(2);
  long_job.plan.epochs = 3;
  const auto made = Node::create(long_job, {}, {});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  Node& node = **made;
  std::vector<std::jthread> watchers;
  for (int i = 0; i < 2; ++i) {
    watchers.emplace_back([&node](const std::stop_token& stop) {
      double delivered = 0;
      while (!stop.stop_requested()) {
        const Scrape now = look(node.metrics_url());
        EXPECT_GE(now.value("samples_delivered_total"), delivered);
        EXPECT_LE(now.value("memory_in_use_bytes"), now.value("memory_budget_bytes"));
        delivered = now.value("samples_delivered_total");
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
