#include "loader/node/internal/delivery_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/loader/node/node_support.h"
#include "tests/loader/node/recording_server.h"
#include "tests/support/log_lines.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"

namespace isocost {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::chrono::seconds kLong{60};  // longer than any test waits

NodeOptions some_options() {
  NodeOptions options;
  options.data = "shards";
  return options;
}

class DeliveryLoopTest : public testing::Test {
 protected:
  // A job of `ranks` ranks and one step of one microbatch each.
  std::uint64_t begin(std::uint32_t ranks, bool complete = true) {
    Hello hello;
    hello.world_size = static_cast<std::int32_t>(ranks);
    const std::uint64_t job = job_.begin(hello, true).value().id;
    step_ = make_step(0, 0, ranks, 1);
    EXPECT_TRUE(job_.push(job, step_));
    if (complete) {
      EXPECT_TRUE(job_.push(job, end_of_epoch(0, true)));
    }
    return job;
  }
  void join(std::int32_t rank) {
    job_.join({rank, false, {}, std::uint64_t{100} + static_cast<std::uint64_t>(rank)});
    job_.grant(rank, 9);
  }
  // Keeps tensors as if the step had been decoded and they had been kept.
  void keep_tensors() {
    for (StepSample& sample : step_->samples) {
      sample.decoded =
          decoder_.decode(sample.id, nullptr, decoder_.admit(sample.id, {}).value(), {})
              .value()
              .value();
    }
  }
  DeliveryLoop loop(std::chrono::nanoseconds blocked_timeout) {
    return DeliveryLoop({job_, server_, decoder_, meter_,
                         [](std::int32_t rank) { return "rank " + std::to_string(rank); },
                         log_.sink(), blocked_timeout});
  }
  // Runs until the job fails, with the first decode on this thread.
  Status deliver_one_sample(std::uint64_t job) {
    DeliveryLoop delivery = loop(kLong);
    Status status;
    {
      const std::jthread deliverer([&] { status = delivery.run(job, {}); });
      executor_.wait_for(1);
      executor_.run_first();
    }
    return status;
  }
  StepDecoder::Context context() {
    return {&dataset_,  &recipe_, decode_.get(), &executor_, &budget_, &pool_,
            bad_.get(), {},       nullptr,       &retry_};
  }
  void acknowledge_at_the_end() {
    server_.on_end = [this](std::int32_t rank) { job_.acknowledge(rank, {0, 0, 0}); };
  }

  ManualClock clock_;
  NodeOptions options_ = some_options();
  TextDataset dataset_{{"a", "b", kNotUtf8}};
  Recipe recipe_ = Recipe::create({}).value();
  BufferPool pool_;
  MemoryBudget budget_{kGiB};  // outlives the job and its step, whose samples hold grants
  CurrentJob job_{{JoinRequirements{options_}, 0, clock_.clock()}};
  std::shared_ptr<SealedStep> step_;
  LogLines log_;
  std::unique_ptr<BadSampleList> bad_ = BadSampleList::create({.file = {}}, {}).value();
  RecordingServer server_;
  TrainingMeter meter_;
  ManualExecutor executor_;
  ReadRetry retry_{{.timeout = std::chrono::milliseconds(1)}};
  std::unique_ptr<SampleDecoder> decode_ = make_in_process_decoder(recipe_, kLong);
  StepDecoder decoder_{context(), options_.bad_samples.policy, options_.plan.seed};
};

TEST_F(DeliveryLoopTest, SendsWhatWasKeptAndReleasesIt) {
  const std::uint64_t job = begin(1);
  keep_tensors();
  join(0);
  acknowledge_at_the_end();
  DeliveryLoop delivery = loop(kLong);
  EXPECT_TRUE(delivery.run(job, {}));
  EXPECT_THAT(server_.sent(), ElementsAre("begin 0:0.0.0", "sample 0:0.0.0/0 of 4", "end 0:0"));
  EXPECT_THAT(server_.sessions(), ElementsAre(100, 100, 100));
  EXPECT_EQ(step_->samples[0].decoded, nullptr);
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(delivery.decoded_again(), 0U);
  EXPECT_EQ(meter_.totals().microbatches_sent, 1U);
}

TEST_F(DeliveryLoopTest, DecodesAgainWhatWasNotKept) {
  const std::uint64_t job = begin(1);
  join(0);
  acknowledge_at_the_end();
  DeliveryLoop delivery = loop(kLong);
  EXPECT_TRUE(delivery.run(job, {}));
  EXPECT_THAT(server_.sent(), ElementsAre("begin 0:0.0.0", "end 0:0"));
  ASSERT_EQ(executor_.waiting(), 1U);
  executor_.run_first();
  EXPECT_EQ(server_.sent().back(), "sample 0:0.0.0/0 of 4");
  EXPECT_EQ(delivery.decoded_again(), 1U);
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(DeliveryLoopTest, BeginsToReadWhatComesNextOfAServerAndIsDecodedAgain) {
  dataset_.on_servers = 3;
  dataset_.on_hold_shard = [](std::size_t) {};  // all lie on a server
  std::promise<void> both;
  std::atomic<int> reads = 0;
  dataset_.on_read_ahead = [&](SampleId) {
    if (++reads == 2) both.set_value();
  };
  // Another one, as how much is read ahead follows from the data set that a decoder begins with.
  StepDecoder decoder(context(), options_.bad_samples.policy, options_.plan.seed);
  Hello hello;
  hello.world_size = 1;
  const std::uint64_t job = job_.begin(hello, true).value().id;
  step_ = make_step(0, 0, 1, 2);
  ASSERT_TRUE(job_.push(job, step_));
  job_.join({0, false, {}, 100});
  job_.grant(0, 1);  // of two
  DeliveryLoop delivery({job_, server_, decoder, meter_,
                         [](std::int32_t) { return std::string("rank"); }, log_.sink(), kLong});
  {
    const std::jthread deliverer(
        [&](const std::stop_token& stop) { EXPECT_FALSE(delivery.run(job, stop)); });
    EXPECT_EQ(both.get_future().wait_for(kLong), std::future_status::ready);
    executor_.wait_for(1);
    executor_.run_first();
  }
  EXPECT_THAT(server_.sent(), ElementsAre("begin 0:0.0.0", "sample 0:0.0.0/0 of 4"));
  EXPECT_EQ(reads, 2);  // the first one once
}

TEST_F(DeliveryLoopTest, WaitsForItsTasksWhenDestroyed) {
  const std::uint64_t job = begin(1);
  join(0);
  acknowledge_at_the_end();
  std::atomic<bool> destroyed = false;
  {
    const std::jthread deliverer([&] {
      EXPECT_TRUE(loop(kLong).run(job, {}));
      destroyed = true;
    });
    executor_.wait_for(1);
    EXPECT_FALSE(destroyed);
    executor_.run_first();
  }
  // The end of the epoch may be sent before the task has run, or after it.
  EXPECT_THAT(server_.sent(), Contains("sample 0:0.0.0/0 of 4"));
}

TEST_F(DeliveryLoopTest, ASampleThatHasBecomeBadFailsTheJob) {
  const std::uint64_t job = begin(1);
  step_->samples[0].id = 2;  // not UTF-8
  join(0);
  const Status status = deliver_one_sample(job);
  EXPECT_THAT(status.error().message(), HasSubstr("a sample that was good is bad"));
}

TEST_F(DeliveryLoopTest, ReadsThatStayRefusedFailTheJobWithTheirCause) {
  const std::uint64_t job = begin(1);
  dataset_.refused_opens = 1'000'000;
  join(0);
  const Status status = deliver_one_sample(job);
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
  EXPECT_THAT(status.error().message(), HasSubstr("shard.tar: cannot open"));
}

TEST_F(DeliveryLoopTest, RanksThatWaitForAnAbsentOneAreToldOnce) {
  const std::uint64_t job = begin(2, false);
  keep_tensors();
  join(0);
  std::atomic<bool> told = false;
  server_.on_refuse = [&] { told = true; };
  DeliveryLoop delivery = loop(std::chrono::nanoseconds(0));
  std::stop_source stop;
  {
    const std::jthread deliverer([&] { (void)delivery.run(job, stop.get_token()); });
    while (!told) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // many checks more
    stop.request_stop();
  }
  const std::string why =
      "rank 1 never joined, and no data can follow without it: start all ranks again from the last "
      "saved state";
  EXPECT_THAT(server_.sent(),
              ElementsAre("begin 0:0.0.0", "sample 0:0.0.0/0 of 4", "refuse 0: " + why));
  EXPECT_EQ(server_.sessions().back(), 100U);
  EXPECT_THAT(log_.lines(), ElementsAre(why));
}

TEST_F(DeliveryLoopTest, AStopEndsTheWaitForMemory) {
  const std::uint64_t job = begin(1);
  join(0);
  const auto all = budget_.acquire(kGiB, {});
  ASSERT_TRUE(all.has_value());
  std::stop_source stop;
  DeliveryLoop delivery = loop(kLong);
  std::optional<Status> status;
  {
    const std::jthread deliverer([&] { status = delivery.run(job, stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_EQ(status->error().code(), ErrorCode::kCancelled);
}

TEST_F(DeliveryLoopTest, AnotherJobEndsIt) {
  const std::uint64_t job = begin(1);
  DeliveryLoop delivery = loop(kLong);
  std::optional<Status> status;
  {
    const std::jthread deliverer([&] { status = delivery.run(job, {}); });
    begin(2);
  }
  EXPECT_EQ(status->error().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace isocost
