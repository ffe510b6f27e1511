// TorchLoader as a trainer uses it, with a real node over loopback.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loader/config/option_table.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"
#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kSteps = 3;  // 40 samples in steps of 16

/// Returns the message of the Exception that `act` throws, and expects its code.
std::string thrown(ErrorCode code, const std::function<void()>& act) {
  try {
    act();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), code) << exception.what();
    return exception.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class TorchTrainer : public LoopTest {
 protected:
  void serve(std::int64_t epochs, std::int64_t microbatches = 2, bool correct = true) {
    if (!std::exchange(has_data_, true)) make_dataset(40);
    NodeOptions of_node = this->options(1);
    of_node.cost_model.correct = correct;
    of_node.plan.epochs = epochs;
    of_node.plan.microbatches = microbatches;
    serving_.emplace(Node::create(of_node, {}, {}).value());
    options_.endpoint = serving_->endpoint();
    options_.world_size = 1;
  }

  static std::multiset<std::uint64_t> ids_of(const TorchMicrobatch& microbatch) {
    std::multiset<std::uint64_t> ids;
    for (const SampleEntry& sample : microbatch.header.samples) ids.insert(sample.id);
    return ids;
  }

  /// Reports seconds for each module that may have work.
  static void report(TorchLoader& loader, const TorchMicrobatch& microbatch) {
    loader.report(microbatch, {0.01, 0.01, 0.01});
  }

  bool has_data_ = false;
  std::optional<NodeThread> serving_;
  LoaderOptions options_;
};

TEST_F(TorchTrainer, TrainsEveryEpochAndEndsWithItsLastMicrobatch) {
  serve(2);
  TorchLoader loader(options_);
  EXPECT_EQ(loader.welcome().samples_per_epoch, 40U);
  std::map<std::uint32_t, std::uint32_t> steps;
  for (auto& epoch : loader.epochs(2)) {
    bool ended = false;
    for (const auto& microbatch : epoch) {
      EXPECT_FALSE(ended) << "the last microbatch was not the last";
      ended = microbatch.last_of_epoch();
      EXPECT_EQ(microbatch.header.position.epoch, epoch.number());
      report(loader, microbatch);
      if (microbatch.last_of_step()) steps[epoch.number()] += 1;
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(loader.state().epoch, epoch.number() + 1);
    EXPECT_EQ(loader.state().step, 0U);
  }
  EXPECT_EQ(steps, (std::map<std::uint32_t, std::uint32_t>{{0, kSteps}, {1, kSteps}}));
  EXPECT_THAT(thrown(ErrorCode::kNotFound, [&] { static_cast<void>(loader.epochs(2).begin()); }),
              HasSubstr("epochs(2) are those with numbers below 2, and this loader stands at epoch "
                        "2: the node delivers no further"));
  EXPECT_THAT(thrown(ErrorCode::kNotFound,
                     [&] {
                       for (auto& epoch : loader.epochs(3)) static_cast<void>(epoch.begin());
                     }),
              HasSubstr("the node delivers 2"));
  loader.close();
  EXPECT_TRUE(serving_->wait(std::chrono::minutes(1)).value().has_value());
}

// It comes after the epoch's last microbatch, and no further call follows the last epoch.
TEST_F(TorchTrainer, AnEpochHasItsEndWhenItsLoopHasEnded) {
  serve(2);
  TorchLoader loader(options_);
  std::vector<EpochEnd> ends;
  for (const auto& epoch : loader.epochs()) {
    for (const auto& microbatch : epoch) {
      report(loader, microbatch);
      EXPECT_FALSE(epoch.epoch_end().has_value());
    }
    ASSERT_TRUE(epoch.epoch_end().has_value());
    ends.push_back(*epoch.epoch_end());
    ASSERT_TRUE(loader.epoch_end().has_value());
    EXPECT_EQ(loader.epoch_end()->epoch, epoch.number());
    for (const auto& again : epoch) ADD_FAILURE() << again.header.position.step;
    EXPECT_TRUE(epoch.epoch_end().has_value());
  }
  ASSERT_EQ(ends.size(), 2U);
  for (std::uint32_t number : {0U, 1U}) {
    EXPECT_EQ(ends[number].epoch, number);
    EXPECT_EQ(ends[number].steps, kSteps);
    EXPECT_EQ(ends[number].last_epoch, number == 1);
  }
}

TEST_F(TorchTrainer, ASecondRangeOverTheSameEpochsSaysWhatToAskFor) {
  serve(0);
  TorchLoader loader(options_);
  const auto train = [&](std::uint32_t epochs) {
    for (const auto& epoch : loader.epochs(epochs)) {
      for (const auto& microbatch : epoch) report(loader, microbatch);
    }
  };
  train(1);
  EXPECT_THAT(thrown(ErrorCode::kNotFound, [&] { train(1); }),
              HasSubstr("epochs(1) are those with numbers below 1, and this loader stands at epoch "
                        "1. Ask for epochs(2)"));
  train(2);
  EXPECT_EQ(loader.state().epoch, 2U);
}

// Microbatches stay trained if a stop is requested at an epoch's last one.
TEST_F(TorchTrainer, AStopEndsTheWaitForAnEpochsEnd) {
  serve(2);
  TorchLoader loader(options_);
  std::stop_source stop;
  std::uint32_t epochs = 0;
  EXPECT_THAT(thrown(ErrorCode::kCancelled,
                     [&] {
                       for (const auto& epoch : loader.epochs(0, stop.get_token())) {
                         for (const auto& microbatch : epoch) {
                           report(loader, microbatch);
                           if (microbatch.last_of_epoch()) stop.request_stop();
                         }
                         ++epochs;
                         EXPECT_FALSE(epoch.epoch_end().has_value());
                       }
                     }),
              HasSubstr("stop"));
  EXPECT_EQ(epochs, 1U);
  EXPECT_EQ(loader.state().epoch, 1U);
}

TEST_F(TorchTrainer, OptionsAreNamedWhereTheyAreGiven) {
  serve(1);
  TorchLoader loader({.endpoint = options_.endpoint, .world_size = 1, .start = State()});
  EXPECT_EQ(loader.next().value().header.position, (Position{0, 0, 0}));
}

TEST_F(TorchTrainer, GoesOnAfterABreakAtTheNextMicrobatch) {
  serve(1);
  TorchLoader loader(options_);
  std::vector<Position> seen;
  State state;
  for (int loops = 0; loops < 100 && state.epoch == 0; ++loops) {
    for (auto& epoch : loader.epochs()) {
      for (const auto& microbatch : epoch) {
        seen.push_back(microbatch.header.position);
        state = loader.state(microbatch);
        break;
      }
      break;
    }
  }
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().step, kSteps - 1);
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_LT(seen[i - 1], seen[i]);
}

TEST_F(TorchTrainer, AnEpochWithoutALoopIsAnError) {
  serve(1);
  TorchLoader loader(options_);
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument,
                     [&] {
                       for (const auto& epoch : loader.epochs()) static_cast<void>(epoch.number());
                     }),
              HasSubstr("epoch 0 was left without a loop"));
}

// The state that is saved after a step is where another process continues, with the same samples.
// How a step is split into microbatches may differ: the node learns from reports in the meantime.
TEST_F(TorchTrainer, ResumesWhereTheStateStands) {
  serve(2);
  std::multiset<std::uint64_t> second_step;
  std::string saved;
  {
    TorchLoader loader(options_);
    for (auto& epoch : loader.epochs()) {
      for (const auto& microbatch : epoch) {
        const Position at = microbatch.header.position;
        report(loader, microbatch);
        const State state = loader.state();
        EXPECT_EQ(state.cursor, loader.welcome().start.cursor);
        EXPECT_EQ(state.step, at.step + (microbatch.last_of_step() ? 1 : 0));
        if (microbatch.last_of_step() && saved.empty()) saved = loader.state().to_json();
        if (at.step == 1) second_step.merge(ids_of(microbatch));
        if (at.step == 1 && microbatch.last_of_step()) break;
      }
      break;
    }
  }
  LoaderOptions again = options_;
  again.start = State::parse(saved);
  TorchLoader loader(again);
  std::multiset<std::uint64_t> resumed;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::optional<TorchMicrobatch> next = loader.next();
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->header.position, (Position{0, 1, i}));
    resumed.merge(ids_of(*next));
  }
  EXPECT_EQ(resumed, second_step);
}

// Three of four samples of each step are of the second source.
TEST_F(TorchTrainer, TrainsOnAMixtureAndResumesInIt) {
  make_dataset(48);
  std::ofstream(scratch() / "mixture.toml")
      << "steps = 5\n"
         "[[source]]\nname = \"one\"\npath = \"shards/shard-000000.tar\"\nproportion = 1\n"
         "[[source]]\nname = \"two\"\npath = \"shards/shard-00000[12].tar\"\nproportion = 3\n";
  NodeOptions defaults = this->options(1);
  defaults.data = scratch() / "mixture.toml";
  serving_.emplace(Node::create(make_options({}, std::move(defaults)).value(), {}, {}).value());
  options_.endpoint = serving_->endpoint();
  options_.world_size = 1;
  const auto steps_of = [](TorchLoader& loader, std::uint32_t stop, std::string& saved) {
    std::map<std::uint32_t, std::multiset<std::string>> steps;
    while (const auto next = loader.next()) {
      const std::uint32_t step = next->header.position.step;
      for (const SampleEntry& sample : next->header.samples) steps[step].insert(sample.key);
      report(loader, *next);
      if (!next->last_of_step() || step + 1 != stop) continue;
      saved = loader.state().to_json();
      break;
    }
    return steps;
  };
  std::string saved;
  std::map<std::uint32_t, std::multiset<std::string>> steps;
  {
    TorchLoader loader(options_);
    steps = steps_of(loader, 2, saved);
  }
  LoaderOptions again = options_;
  again.start = State::parse(saved);
  EXPECT_THAT(again.start->mixture, HasSubstr("two"));
  TorchLoader loader(again);
  steps.merge(steps_of(loader, 0, saved));
  ASSERT_EQ(steps.size(), 5U);
  for (const auto& [step, keys] : steps) {
    EXPECT_EQ(keys.size(), 16U) << step;
    EXPECT_EQ(std::ranges::count_if(keys, [](const auto& key) { return key.starts_with("one/"); }),
              4)
        << step;
  }
}

// A loop that prepares its next microbatches while it trains on one: what it holds ready is not
// trained, and comes again to the run that resumes.
TEST_F(TorchTrainer, AStateNamesNoStepThatTheLoopOnlyHoldsReady) {
  for (const std::size_t ahead : {1U, 2U}) {
    for (const std::uint32_t of_step : {1U, 2U}) {
      serve(2, of_step);
      TorchLoader loader(options_);
      std::deque<TorchMicrobatch> ready;
      for (std::uint32_t i = 0; i < 4; ++i) {
        while (ready.size() <= ahead) {
          if (auto next = loader.next())
            ready.push_back(*std::move(next));  // nothing: an epoch's end
        }
        report(loader, ready.front());
        ready.pop_front();
        const std::uint32_t whole = (i + 1) / of_step;
        const State state = loader.state();
        EXPECT_EQ(state.epoch, whole / kSteps) << i;
        EXPECT_EQ(state.step, whole % kSteps) << i;
      }
      const State saved = loader.state();
      const Position next = ready.front().header.position;
      EXPECT_EQ(saved.step, next.step);
      LoaderOptions again = options_;
      again.start = saved;
      loader.client().leave();
      EXPECT_EQ(TorchLoader(again).next().value().header.position,
                (Position{next.epoch, next.step, 0}));
    }
  }
}

TEST_F(TorchTrainer, ALoopThatReportsNothingNamesWhatItTrained) {
  serve(1, 1);
  TorchLoader loader(options_);
  const TorchMicrobatch first = loader.next().value();
  const TorchMicrobatch second = loader.next().value();
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { static_cast<void>(loader.state()); }),
              HasSubstr("Report each microbatch after its work (TorchLoader::report), or name"));
  EXPECT_EQ(loader.state(first).step, 1U);
  EXPECT_EQ(loader.state().step, 1U);
  TorchMicrobatch ahead = second;
  ahead.header.position.step += 1;
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { static_cast<void>(loader.state(ahead)); }),
              HasSubstr("was not handed out"));
}

// If the body of a microbatch throws, before or after its report, its step is not finished: the
// state in the handler says so, and a loop that continues does not acknowledge it.
TEST_F(TorchTrainer, AMicrobatchWhoseBodyThrowsIsNotTrained) {
  serve(1, 1);
  constexpr std::uint32_t kThrows = 1;
  for (const bool reported : {false, true}) {
    LoaderOptions options = options_;
    options.start = StartPoint{};
    TorchLoader loader(options);
    try {
      for (auto& epoch : loader.epochs()) {
        for (const auto& microbatch : epoch) {
          const bool throws = microbatch.header.position.step == kThrows;
          if (!throws || reported) report(loader, microbatch);
          if (throws) throw std::runtime_error("the optimizer failed");
        }
      }
      FAIL() << "the body throws";
    } catch (const std::runtime_error&) {
      EXPECT_EQ(loader.state().step, kThrows) << "reported: " << reported;
    }
    for (auto& epoch : loader.epochs()) {
      for (const auto& microbatch : epoch) {
        EXPECT_EQ(microbatch.header.position.step, kThrows + 1) << "a loop goes on with the next";
        EXPECT_EQ(loader.state().step, kThrows);
        break;
      }
      break;
    }
    loader.close();
    LoaderOptions successor = options_;  // without a start it continues where the node stands
    EXPECT_EQ(TorchLoader(successor).next().value().header.position.step, kThrows);
  }
}

TEST_F(TorchTrainer, AStateOfOtherDataIsRefusedUnlessItMayBe) {
  serve(1);
  options_.start = StartPoint{1234, 0, 1, ""};
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { TorchLoader loader(options_); }),
              HasSubstr("the node refused"));
  options_.accept_other_data = true;
  TorchLoader loader(options_);
  EXPECT_EQ(loader.next().value().header.position.step, 1U);
}

TEST_F(TorchTrainer, TensorsHavePythonsNames) {
  serve(1);
  TorchLoader loader(options_);
  const std::optional<TorchMicrobatch> next = loader.next();
  ASSERT_TRUE(next.has_value());
  const TorchMicrobatch& microbatch = *next;
  const at::Tensor ids = microbatch["input_ids"];
  EXPECT_EQ(ids.scalar_type(), at::kLong);
  EXPECT_TRUE(microbatch.contains("cu_seqlens"));
  EXPECT_EQ(microbatch.find("input_ids")->data_ptr(), ids.data_ptr());
  EXPECT_EQ(microbatch.contains("audio_mel"), microbatch.find("audio_mel").has_value());
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { microbatch["inputs"]; }),
              HasSubstr("no tensor is called \"inputs\"; there are "));
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { microbatch["turn_weights"]; }),
              HasSubstr("it has "));
  const at::Tensor cu_seqlens = microbatch["cu_seqlens"];
  const auto sums = cu_seqlens.accessor<std::int32_t, 1>();
  for (std::size_t i = 0; i < microbatch.header.samples.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const at::Tensor rows = microbatch.rows("input_ids", i);
    EXPECT_TRUE(rows.equal(ids.slice(0, sums[at], sums[at + 1]))) << i;
  }
}

// A loop that has taken the next microbatch already measures the present one, also where the next
// one need not be measured.
TEST_F(TorchTrainer, ALoopThatLooksAheadMeasuresTheLastMicrobatchOfAMeasuredStep) {
  serve(1, 2, /*correct=*/false);
  TorchLoader loader(options_);
  for (const auto& epoch : loader.epochs()) {
    std::optional<TorchMicrobatch> present;
    for (const auto& next : epoch) {
      if (present) {
        OwnWork work = loader.own_work();
        EXPECT_TRUE(work.measures() || !present->header.seconds_wanted);
        work.add(CostModule::kLlm);
        loader.report(*present, work);
      }
      present = next;
    }
    OwnWork work = loader.own_work(*present);
    work.add(CostModule::kLlm);
    loader.report(*present, work);
  }
}

// Without correction, one step in 16 is measured, the first one among them.
TEST_F(TorchTrainer, AStepThatIsNotMeasuredIsTrainedAllTheSame) {
  serve(1, 2, /*correct=*/false);
  TorchLoader loader(options_);
  std::uint32_t trained = 0;
  for (const auto& epoch : loader.epochs()) {
    for (const auto& microbatch : epoch) {
      const bool is_wanted = microbatch.header.position.step == 0;
      EXPECT_EQ(microbatch.header.seconds_wanted, is_wanted);
      EXPECT_EQ(loader.own_work().measures(), is_wanted);
      OwnWork work = loader.own_work(microbatch);
      EXPECT_EQ(work.measures(), is_wanted);
      work.add(CostModule::kLlm);
      loader.report(microbatch, work);
      EXPECT_TRUE(loader.own_work().measures()) << "the next one may have to be measured";
      if (!microbatch.last_of_step()) continue;
      ++trained;
      EXPECT_EQ(loader.state().epoch * kSteps + loader.state().step, trained);
    }
  }
  EXPECT_EQ(trained, kSteps);
  loader.close();
  const auto summary = serving_->wait(std::chrono::minutes(1)).value();
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->measurements, 2) << "the first step has two microbatches";
  EXPECT_EQ(summary->measurements_rejected, 0);
}

TEST_F(TorchTrainer, AReportThatSaysNothingOrCannotBeIsAnError) {
  serve(1);
  TorchLoader loader(options_);
  TorchMicrobatch microbatch = loader.next().value();
  OwnWork work;
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { loader.report(microbatch, work); }),
              HasSubstr("nothing was measured"));
  work.add(CostModule::kLlm);
  loader.report(microbatch, work);
  TorchMicrobatch ahead = microbatch;
  ahead.header.position.step += 1;
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { loader.report(ahead, work); }),
              HasSubstr("was not received yet"));
  loader.close();
  EXPECT_THAT(thrown(ErrorCode::kCancelled, [&] { loader.report(microbatch, work); }),
              HasSubstr("the client is closed"));
  EXPECT_THAT(thrown(ErrorCode::kCancelled, [&] { static_cast<void>(loader.next()); }),
              HasSubstr("the loader is closed"));
}

TEST_F(TorchTrainer, ALoaderThatWasMovedFromSaysSo) {
  serve(1);
  TorchLoader loader(options_);
  const TorchLoader moved = std::move(loader);
  EXPECT_EQ(moved.welcome().ranks, 1);
  // NOLINTBEGIN(bugprone-use-after-move): what it says is tested.
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { static_cast<void>(loader.next()); }),
              HasSubstr("moved from"));
  EXPECT_THAT(thrown(ErrorCode::kInvalidArgument, [&] { static_cast<void>(loader.state()); }),
              HasSubstr("moved from"));
  // NOLINTEND(bugprone-use-after-move)
}

// A microbatch that was in use when an exception unwound was not trained on: it comes again. Here
// each is a step of its own, as a new run repeats a step that is not over.
TEST_F(TorchTrainer, AcknowledgesWhatWasUsedUnlessAnExceptionUnwinds) {
  serve(1, 1);
  Position first;
  try {
    TorchLoader loader(options_);
    first = loader.next().value().header.position;
    throw std::runtime_error("the model failed");
  } catch (const std::runtime_error&) {
  }
  {
    TorchLoader loader(options_);
    EXPECT_EQ(loader.next().value().header.position, first);
  }
  TorchLoader loader(options_);
  EXPECT_GT(loader.next().value().header.position, first);
}

// A client without a state that continues for another one knows where: its state and the range over
// epochs are those of the rank.
TEST_F(TorchTrainer, ALoaderWithoutAStateKnowsWhereItGoesOn) {
  serve(3, 1);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    TorchLoader loader(options_);
    EXPECT_EQ(loader.state().epoch, epoch);
    for (auto& of_loader : loader.epochs(epoch + 1)) {
      EXPECT_EQ(of_loader.number(), epoch);
      for (const auto& microbatch : of_loader) static_cast<void>(microbatch);
    }
  }
  {
    TorchLoader loader(options_);
    for (auto& again : loader.epochs(2)) FAIL() << "epoch " << again.number() << " again";
    static_cast<void>(loader.next());
    loader.close();
    EXPECT_THAT(thrown(ErrorCode::kCancelled, [&] { static_cast<void>(loader.next()); }),
                HasSubstr("closed"));
  }
  TorchLoader loader(options_);
  EXPECT_EQ(loader.state().epoch, 2U);
  EXPECT_EQ(loader.state().step, 1U);
  EXPECT_THAT(thrown(ErrorCode::kNotFound, [&] { static_cast<void>(loader.epochs(4)); }),
              HasSubstr("the node delivers 3"));
}

TEST_F(TorchTrainer, AStopEndsAWaitAndIsNoEndOfAnEpoch) {
  serve(1);
  TorchLoader loader(options_);
  std::stop_source stop;
  stop.request_stop();
  const auto all = [&] {
    for (auto& epoch : loader.epochs(0, stop.get_token())) {
      for (const auto& microbatch : epoch) static_cast<void>(microbatch);
    }
  };
  try {
    all();
    EXPECT_EQ(loader.state().epoch, 1U) << "nothing had to be waited for";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

// A drained node: its own code, the step to resume at, and never the end of an epoch.
TEST_F(TorchTrainer, ADrainedNodeIsNoEndOfAnEpoch) {
  make_dataset(40);
  NodeOptions of_node = this->options(1);
  of_node.plan.epochs = 2;
  const std::unique_ptr<Node> node = Node::create(of_node, {}, {}).value();
  options_.endpoint = node->endpoint();
  std::stop_source drain;
  const std::jthread serving([&](const std::stop_token& stop) {
    static_cast<void>(node->run(stop, drain.get_token()).has_value());
  });
  TorchLoader loader(options_);
  std::uint32_t trained = 0;
  const std::string why = thrown(ErrorCode::kDraining, [&] {
    for (auto& epoch : loader.epochs()) {
      for (const auto& microbatch : epoch) {
        report(loader, microbatch);
        if (!microbatch.last_of_step()) continue;
        if (++trained == 1) drain.request_stop();
      }
    }
  });
  EXPECT_THAT(why, HasSubstr("the node stops: it is draining"));
  EXPECT_LT(trained, 2 * kSteps);
  const std::optional<Position> resume = loader.client().resume_point();
  ASSERT_TRUE(resume.has_value());
  EXPECT_EQ(resume->epoch, loader.state().epoch);
  EXPECT_EQ(resume->step, loader.state().step);
}

}  // namespace
}  // namespace isocost
