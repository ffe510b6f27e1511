#include "loader/node/decoding/step_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "loader/plan/plan_options.h"
#include "tests/loader/node/node_support.h"
#include "tests/support/manual_executor.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

using StepSamples = Result<std::vector<StepSample>>;

std::vector<SampleId> ids_of(const StepSamples& samples) {
  std::vector<SampleId> ids;
  if (!samples) return ids;
  for (const StepSample& sample : *samples) ids.push_back(sample.id);
  return ids;
}

class StepDecoderTest : public testing::Test {
 protected:
  StepDecoder decoder(Executor& executor) {
    options_.bad_samples.file.clear();
    bad_ = BadSampleList::create(options_.bad_samples, {}).value();
    return StepDecoder({&dataset_, &recipe_, decode_.get(), &executor, &budget_, &pool_, bad_.get(),
                        hook_, nullptr, &retry_, &limits_},
                       options_.bad_samples.policy, options_.plan.seed);
  }
  StepSamples decode(const std::vector<SampleId>& ids) {
    const auto executor = make_executor(2);
    return decoder(*executor).decode_step(ids, {}, {});
  }

  TextDataset dataset_{{"zero", "one", kNotUtf8, "three", "four", std::string(200'000, 'x')}};
  Recipe recipe_ = Recipe::create(Native28Options{.max_text_tokens = 1'000'000}).value();
  std::unique_ptr<SampleDecoder> decode_ =
      make_in_process_decoder(recipe_, std::chrono::minutes(1));
  struct {
    BadSampleOptions bad_samples;
    PlanOptions plan;
  } options_;
  BufferPool pool_;
  MemoryBudget budget_{kGiB};
  std::unique_ptr<BadSampleList> bad_;
  LoadHook hook_;
  MicrobatchLimits limits_;
  ReadRetry retry_{
      {.timeout = std::chrono::minutes(1), .first_interval = std::chrono::milliseconds(1)}};
};

TEST_F(StepDecoderTest, DecodesEachSampleOnceInItsOrder) {
  const StepSamples samples = decode({3, 0, 1});
  EXPECT_THAT(ids_of(samples), ElementsAre(3, 0, 1));
  for (const StepSample& sample : samples.value()) {
    ASSERT_NE(sample.decoded, nullptr);
    EXPECT_EQ(sample.specs.size(), sample.decoded->tensors.size());
    // The text between its first and its last token.
    EXPECT_EQ(sample.load[CostModule::kLlm].units,
              static_cast<std::int64_t>(dataset_.shape(sample.id).parts[0].text_bytes) + 2);
  }
}

// Workers finish in any order; here in the reverse one.
TEST_F(StepDecoderTest, TheOrderDoesNotDependOnTheWorkers) {
  ManualExecutor executor;
  StepDecoder decoder = this->decoder(executor);
  std::optional<StepSamples> samples;
  {
    const std::jthread planner(
        [&] { samples = decoder.decode_step(std::vector<SampleId>{0, 1, 3}, {}, {}); });
    executor.wait_for(3);
    for (int i = 0; i < 3; ++i) executor.run_last();
  }
  EXPECT_THAT(ids_of(*samples), ElementsAre(0, 1, 3));
}

TEST_F(StepDecoderTest, JsonIsReadUpToItsLimit) {
  dataset_.json = {{0, R"({"label": 3})"},
                   {1, std::string(kMaxSampleJsonBytes, ' ')},
                   {3, std::string(kMaxSampleJsonBytes + 1, ' ')}};
  const StepSamples samples = decode({0, 1, 3, 4});
  ASSERT_EQ(samples.value().size(), 4U);
  EXPECT_EQ((*samples)[0].json, R"({"label": 3})");
  EXPECT_EQ((*samples)[1].json.size(), kMaxSampleJsonBytes);
  EXPECT_EQ((*samples)[2].json, "");
  EXPECT_EQ((*samples)[3].json, "");
}

TEST_F(StepDecoderTest, SkipsBadSamples) {
  EXPECT_THAT(ids_of(decode({0, 2, 3})), ElementsAre(0, 3));
  EXPECT_EQ(bad_->count(), 1U);
}

TEST_F(StepDecoderTest, ReplacesBadSamplesAlikeInEveryRun) {
  options_.bad_samples.policy = BadSamplePolicy::kReplace;
  const std::vector<SampleId> ids = ids_of(decode({0, 2, 3}));
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids[0], 0U);
  EXPECT_EQ(ids[2], 3U);
  EXPECT_THAT(ids[1], testing::AnyOf(1, 4, 5));
  EXPECT_EQ(ids_of(decode({0, 2, 3})), ids);
}

TEST_F(StepDecoderTest, FailsWhereThePolicySaysSo) {
  options_.bad_samples.policy = BadSamplePolicy::kFail;
  const StepSamples samples = decode({0, 2});
  ASSERT_FALSE(samples.has_value());
  EXPECT_THAT(samples.error().message(), HasSubstr("shard.tar/key2"));
}

TEST_F(StepDecoderTest, ASampleLargerThanAMicrobatchIsBad) {
  options_.plan.microbatch_memory = 1000;
  limits_ = MicrobatchLimits::create(options_.plan, CostProfile::stated_default()).value();
  options_.bad_samples.policy = BadSamplePolicy::kFail;
  EXPECT_THAT(decode({5}).error().message(), HasSubstr("microbatch_memory allows 1,000"));
}

TEST_F(StepDecoderTest, ALimitHoldsForTheHooksLoad) {
  options_.plan.max_tokens = 102;
  limits_ = MicrobatchLimits::create(options_.plan, CostProfile::stated_default()).value();
  hook_ = [](SampleId id, const Dataset&, const Load&) {
    Load load;
    load[CostModule::kLlm].add_sequence(static_cast<std::int64_t>(100 + id));
    return Result<Load>(load);
  };
  EXPECT_THAT(ids_of(decode({1, 3})), ElementsAre(1));
  EXPECT_THAT(bad_->last()->reason, HasSubstr("has 103 LLM tokens, and max_tokens allows 102"));
}

TEST_F(StepDecoderTest, TheHookSetsTheLoad) {
  hook_ = [](SampleId id, const Dataset&, const Load&) {
    Load load;
    load[CostModule::kLlm].add_sequence(static_cast<std::int64_t>(100 + id));
    return Result<Load>(load);
  };
  EXPECT_EQ(decode({3}).value()[0].load[CostModule::kLlm].units, 103);
  hook_ = [](SampleId, const Dataset&, const Load&) {
    return Result<Load>(Error(ErrorCode::kIo, "no tokens"));
  };
  EXPECT_EQ(decode({3}).error().message(), "no tokens");
}

TEST_F(StepDecoderTest, WhatADamagedIndexSaysMakesNoSampleBad) {
  dataset_.index = Error(ErrorCode::kCorrupt, "the index was cut");
  EXPECT_EQ(decode({3}).error().message(), "the index was cut");
  dataset_.refused_opens = 1;
  dataset_.refusal = ErrorCode::kCorrupt;
  EXPECT_EQ(decode({3}).error().message(), "the index was cut");
  options_.plan.microbatch_memory = 1000;
  limits_ = MicrobatchLimits::create(options_.plan, CostProfile::stated_default()).value();
  EXPECT_EQ(decode({5}).error().message(), "the index was cut");
  hook_ = [](SampleId, const Dataset&, const Load&) {
    return Result<Load>(Error(ErrorCode::kIo, "no tokens"));
  };
  EXPECT_EQ(decode({3}).error().message(), "the index was cut");
  EXPECT_EQ(bad_->count(), 0U);
}

TEST_F(StepDecoderTest, HoldsNoMoreThanHalfOfTheBudget) {
  const auto executor = make_executor(1);
  // A batch of the large sample alone: its tensors hold more than half of what decoding it needs.
  const std::int64_t needed = recipe_.working_set_bytes(dataset_.shape(5)).value();
  MemoryBudget budget(2 * needed);
  bad_ = BadSampleList::create({.file = {}}, {}).value();
  StepDecoder decoder({&dataset_,
                       &recipe_,
                       decode_.get(),
                       executor.get(),
                       &budget,
                       &pool_,
                       bad_.get(),
                       {},
                       nullptr,
                       &retry_},
                      options_.bad_samples.policy, options_.plan.seed);
  StepSamples samples = decoder.decode_step(std::vector<SampleId>{5, 5, 5}, {}, {});
  ASSERT_EQ(samples.value().size(), 3U);
  int held = 0;
  for (const StepSample& sample : *samples) held += sample.decoded != nullptr ? 1 : 0;
  EXPECT_LT(held, 3);
  EXPECT_EQ(decoder.waiting_samples(), held);
  EXPECT_LE(decoder.waiting_bytes(), needed);
  EXPECT_EQ(budget.in_use(), decoder.waiting_bytes());
  samples->clear();
  EXPECT_EQ(decoder.waiting_samples(), 0);
  EXPECT_EQ(decoder.waiting_bytes(), 0);
  EXPECT_EQ(budget.in_use(), 0);
}

TEST_F(StepDecoderTest, AStopEndsTheWaitForMemory) {
  const auto executor = make_executor(1);
  StepDecoder decoder = this->decoder(*executor);
  const auto all = budget_.acquire(kGiB, {});
  ASSERT_TRUE(all.has_value());
  std::stop_source stop;
  std::optional<StepSamples> samples;
  {
    const std::jthread planner(
        [&] { samples = decoder.decode_step(std::vector<SampleId>{0, 1}, {}, stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_EQ(samples->error().code(), ErrorCode::kCancelled);
}

TEST_F(StepDecoderTest, ABadSampleIsNamedWhenItIsDecodedAgain) {
  const auto executor = make_executor(1);
  const StepDecoder decoder = this->decoder(*executor);
  const auto decoded = decoder.decode(2, nullptr, decoder.admit(2, {}).value(), {}).value();
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().key, "key2");
  EXPECT_EQ(decoded.error().part, "txt");
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(StepDecoderTest, WhatAServerSentIsKeptForASampleThatIsDecodedAgain) {
  dataset_.on_hold_shard = [](std::size_t) {};  // all lie on a server
  dataset_.on_servers = 6;
  std::atomic<int> reads = 0;
  dataset_.on_read_ahead = [&](SampleId) { ++reads; };
  const auto executor = make_executor(1);
  StepDecoder decoder = this->decoder(*executor);
  const auto no_room = decoder.waiting_budget()->try_acquire(kGiB / 2 - kGiB / 16);
  ASSERT_TRUE(no_room.has_value());
  const StepSamples samples = decoder.decode_step(std::vector<SampleId>{3}, {}, {});
  ASSERT_EQ(ids_of(samples), std::vector<SampleId>{3});
  EXPECT_EQ(samples->front().decoded, nullptr);
  EXPECT_EQ(reads, 1);
  const auto again = [&](const std::shared_ptr<SampleRead>& read) {
    return decoder.decode(3, read, decoder.admit(3, {}).value(), {}).value().has_value();
  };
  EXPECT_TRUE(again(samples->front().read));
  EXPECT_EQ(reads, 1);
  EXPECT_TRUE(again(nullptr));
  EXPECT_EQ(reads, 2);
}

TEST_F(StepDecoderTest, ReadsThatTheMachineRefusesAreRepeatedAndNoSampleIsLost) {
  dataset_.refused_opens = 5;
  EXPECT_THAT(ids_of(decode({3, 0, 1})), ElementsAre(3, 0, 1));
  EXPECT_EQ(bad_->count(), 0U);
  EXPECT_EQ(dataset_.refused_opens, 0);
}

TEST_F(StepDecoderTest, ReadsThatStayRefusedAreTheMachinesError) {
  dataset_.refused_opens = 1'000'000;
  const auto executor = make_executor(2);
  StepDecoder decoder = this->decoder(*executor);
  ReadRetry impatient({.timeout = std::chrono::milliseconds(20)});
  StepDecoder failing({&dataset_,
                       &recipe_,
                       decode_.get(),
                       executor.get(),
                       &budget_,
                       &pool_,
                       bad_.get(),
                       {},
                       nullptr,
                       &impatient},
                      options_.bad_samples.policy, options_.plan.seed);
  const StepSamples samples = failing.decode_step(std::vector<SampleId>{0, 1, 3}, {}, {});
  ASSERT_FALSE(samples.has_value());
  EXPECT_EQ(samples.error().code(), ErrorCode::kIo);
  EXPECT_THAT(samples.error().message(), HasSubstr("shard.tar: cannot open"));
  EXPECT_EQ(bad_->count(), 0U);
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(StepDecoderTest, ASampleForWhichThereIsNoMemoryIsBadAndTheOthersAreNot) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers end a process that has no memory";
  const TextDataset large({"zero", std::string(16'000'000, 'x'), "two"});
  recipe_ = Recipe::create(Native28Options{.max_text_tokens = 1 << 24}).value();
  decode_ = make_in_process_decoder(recipe_, std::chrono::minutes(1));
  std::ifstream pages("/proc/self/statm");
  rlim_t used = 0;
  pages >> used;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit little{used * 4096 + (rlim_t{40} << 20), before.rlim_max};
  MemoryBudget generous(64 * kGiB);
  const auto executor = make_executor(1);
  decoder(*executor);
  StepDecoder decoder({&large,
                       &recipe_,
                       decode_.get(),
                       executor.get(),
                       &generous,
                       &pool_,
                       bad_.get(),
                       {},
                       nullptr,
                       &retry_},
                      options_.bad_samples.policy, options_.plan.seed);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const StepSamples samples = decoder.decode_step(std::vector<SampleId>{0, 1, 2}, {}, {});
  setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(ids_of(samples), ElementsAre(0, 2));
  EXPECT_THAT(bad_->last()->reason, HasSubstr("no memory left"));
}

TEST_F(StepDecoderTest, AStopEndsThePause) {
  dataset_.refused_opens = 1'000'000'000;
  const auto executor = make_executor(2);
  StepDecoder decoder = this->decoder(*executor);
  std::optional<StepSamples> samples;
  std::stop_source stop;
  {
    const std::jthread planner(
        [&] { samples = decoder.decode_step(std::vector<SampleId>{0, 1}, {}, stop.get_token()); });
    while (retry_.paused_s() == 0) std::this_thread::yield();
    stop.request_stop();
  }
  EXPECT_EQ(samples->error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(retry_.paused_s(), 0);
}

// A planning thread that decodes one step after another, on workers that the test moves by hand.
class DecodeAhead : public StepDecoderTest {
 protected:
  using Ids = std::vector<SampleId>;

  static StepDecoder::Following following(Ids ids) {
    return [ids = std::move(ids)](std::size_t index) {
      return index < ids.size() ? std::optional(ids[index]) : std::nullopt;
    };
  }
  // Decodes the step's samples while `meanwhile` runs tasks.
  template <typename Meanwhile>
  StepSamples decode_while(const Ids& ids, const StepDecoder::Following& following,
                           Meanwhile meanwhile) {
    std::optional<StepSamples> samples;
    {
      const std::jthread planner([&] { samples = decoder_.decode_step(ids, following, {}); });
      meanwhile();
    }
    return *std::move(samples);
  }
  // Returns what steps of one sample find, on workers of their own: "id" of each good sample, and
  // "bad key" of the last bad one where a step has found another.
  std::vector<std::string> found(const Ids& ids, bool ahead) {
    const auto executor = make_executor(3);
    StepDecoder decoder = this->decoder(*executor);
    std::vector<std::string> found;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Ids later(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1, ids.end());
      const std::uint64_t bad = bad_->count();
      const StepSamples samples =
          decoder.decode_step(Ids{ids[i]}, ahead ? following(later) : following({}), {});
      for (const SampleId id : ids_of(samples)) found.push_back(std::to_string(id));
      if (bad_->count() > bad) found.push_back("bad " + bad_->last()->key);
    }
    return found;
  }

  ManualExecutor workers_{2};
  StepDecoder decoder_ = decoder(workers_);
};

TEST_F(DecodeAhead, AnIdleWorkerBeginsTheSampleOfTheNextStep) {
  const StepSamples first = decode_while({0}, following({1, 3}), [&] {
    workers_.wait_for(2);
    EXPECT_EQ(workers_.waiting(), 2U);  // no more than there are workers
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(first), ElementsAre(0));
  const StepSamples second = decode_while({1}, following({3}), [&] {
    workers_.wait_for(2);
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(second), ElementsAre(1));
  const StepSamples third = decode_while({3}, {}, [&] { workers_.run_first(); });
  EXPECT_THAT(ids_of(third), ElementsAre(3));
  EXPECT_EQ(workers_.waiting(), 0U);  // each was decoded once
  EXPECT_EQ(decoder_.waiting_samples(), 3);
}

// Whether they are begun by their own step or before it.
TEST_F(DecodeAhead, SamplesAreReadAheadOnce) {
  struct Read {
    Mutex mutex;
    Ids ids ISOCOST_GUARDED_BY(mutex);
    std::latch all{3};
  };
  const auto read = std::make_shared<Read>();
  dataset_.on_read_ahead = [read](SampleId id) {
    {
      const MutexLock lock(read->mutex);
      read->ids.push_back(id);
    }
    read->all.count_down();
  };
  const StepSamples first = decode_while({0, 1}, following({3, 4}), [&] {
    workers_.wait_for(2);
    read->all.wait();
    workers_.run_first();
    workers_.wait_for(2);  // 3 has begun
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(first), ElementsAre(0, 1));
  const StepSamples second = decode_while({3, 4}, {}, [&] {
    workers_.wait_for(2);
    workers_.run_first();
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(second), ElementsAre(3, 4));
  const MutexLock lock(read->mutex);
  EXPECT_THAT(read->ids, UnorderedElementsAre(1, 3, 4));
}

TEST_F(DecodeAhead, AShardThatDoesNotOpenHoldsUpNoOtherSample) {
  const auto opened = std::make_shared<std::latch>(1);
  dataset_.on_read_ahead = [opened](SampleId id) {
    if (id == 3) opened->wait();
  };
  const StepSamples first = decode_while({0}, following({1, 3}), [&] {
    workers_.wait_for(2);
    workers_.run_last();
    workers_.wait_for(2);
    workers_.run_last();
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(first), ElementsAre(0));
  opened->count_down();
}

TEST_F(DecodeAhead, AWorkerThatGetsIdleBeginsAnother) {
  const StepSamples first = decode_while({0}, following({1, 3, 4}), [&] {
    for (int i = 0; i < 3; ++i) {
      workers_.wait_for(2);
      workers_.run_last();
    }
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(first), ElementsAre(0));
  EXPECT_EQ(workers_.waiting(), 0U);
  EXPECT_EQ(decoder_.waiting_samples(), 4);
}

TEST_F(DecodeAhead, ASampleThatIsDecodedAgainKeepsItsWorkerBusy) {
  decoder_.submit([] {});
  const StepSamples first = decode_while({0}, following({1}), [&] {
    workers_.wait_for(2);
    workers_.run_last();
  });
  EXPECT_THAT(ids_of(first), ElementsAre(0));
  EXPECT_EQ(workers_.waiting(), 1U);  // only what was submitted
  workers_.run_first();
}

TEST_F(DecodeAhead, ABadSampleIsListedWithItsOwnStep) {
  const StepSamples first = decode_while({0}, following({2}), [&] {
    workers_.wait_for(2);
    workers_.run_last();  // the bad one
    workers_.run_first();
  });
  EXPECT_EQ(bad_->count(), 0U);
  EXPECT_THAT(ids_of(decoder_.decode_step(Ids{2}, {}, {})), ElementsAre());
  EXPECT_EQ(bad_->count(), 1U);
}

TEST_F(DecodeAhead, AFailureIsThatOfItsOwnStep) {
  hook_ = [](SampleId id, const Dataset&, const Load& load) -> Result<Load> {
    if (id == 3) return Error(ErrorCode::kIo, "no tokens");
    return load;
  };
  const auto executor = make_executor(2);
  StepDecoder decoder = this->decoder(*executor);
  EXPECT_THAT(ids_of(decoder.decode_step(Ids{0}, following({1, 3}), {})), ElementsAre(0));
  EXPECT_THAT(ids_of(decoder.decode_step(Ids{1}, following({3}), {})), ElementsAre(1));
  EXPECT_EQ(decoder.decode_step(Ids{3}, {}, {}).error().message(), "no tokens");
}

TEST_F(DecodeAhead, GoodBadAndReplacedSamplesAreTheSameAsWithoutIt) {
  for (const BadSamplePolicy policy : {BadSamplePolicy::kSkip, BadSamplePolicy::kReplace}) {
    options_.bad_samples.policy = policy;
    const Ids ids = {3, 2, 2, 0, 4, 2, 1, 1, 5};
    EXPECT_EQ(found(ids, true), found(ids, false));
  }
}

TEST_F(DecodeAhead, NothingIsBegunWhereItWouldTakeTheMemoryOfWhatIsNeededNow) {
  const auto half = budget_.acquire(kGiB / 2, {});
  std::atomic<int> asked = 0;
  const StepSamples first = decode_while(
      {0},
      [&](std::size_t index) {
        if (index > 0) return std::optional<SampleId>();
        ++asked;
        asked.notify_one();
        return std::optional<SampleId>(1);
      },
      [&] {
        workers_.wait_for(1);
        for (int seen = asked; seen < 2; seen = asked) asked.wait(seen);  // read ahead, and begun
        workers_.run_first();
      });
  EXPECT_THAT(ids_of(first), ElementsAre(0));
  EXPECT_EQ(workers_.waiting(), 0U);
  const StepSamples second = decode_while({1}, {}, [&] {
    workers_.wait_for(1);
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(second), ElementsAre(1));
}

TEST_F(DecodeAhead, AStepThatWasNotExpectedDropsWhatWasBegun) {
  StepSamples first = decode_while({0}, following({1}), [&] {
    workers_.wait_for(2);
    workers_.run_last();
    workers_.run_first();
  });
  first->clear();
  EXPECT_EQ(decoder_.waiting_samples(), 1);
  const StepSamples elsewhere = decode_while({4}, {}, [&] {
    workers_.wait_for(1);
    workers_.run_first();
  });
  EXPECT_THAT(ids_of(elsewhere), ElementsAre(4));
  EXPECT_EQ(decoder_.waiting_samples(), 1);
}

TEST_F(DecodeAhead, WhatIsDroppedWhileItIsDecodedReturnsItsMemory) {
  StepSamples first = decode_while({0}, following({1, 3}), [&] {
    workers_.wait_for(2);
    workers_.run_last();
    workers_.wait_for(2);
    workers_.run_first();
  });
  first->clear();
  decoder_.drop_begun();
  EXPECT_EQ(decoder_.waiting_samples(), 0);
  EXPECT_GT(budget_.in_use(), 0);
  workers_.run_first();
  EXPECT_EQ(decoder_.waiting_samples(), 0);
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(DecodeAhead, NothingIsBegunAfterAStop) {
  std::stop_source stop;
  stop.request_stop();
  std::optional<StepSamples> first;
  {
    const std::jthread planner(
        [&] { first = decoder_.decode_step(Ids{0}, following({1}), stop.get_token()); });
    workers_.wait_for(1);
    workers_.run_first();
  }
  EXPECT_EQ(workers_.waiting(), 0U);
}

}  // namespace
}  // namespace isocost
