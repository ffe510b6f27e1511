#include "loader/node/internal/step_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/node/internal/measurement.h"
#include "tests/loader/node/node_support.h"
#include "tests/support/log_lines.h"
#include "tests/support/manual_clock.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using std::chrono_literals::operator""ms;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Sixteen texts in batches of four; planning takes as long as the load hook advances the clock.
class StepSourceTest : public testing::Test {
 protected:
  StepSourceTest() {
    options_.data = "shards";
    options_.plan.ranks = 2;
    options_.plan.microbatches = 2;
    options_.plan.global_batch_size = 4;
    options_.bad_samples.file.clear();
  }

  NodeParts parts(const CostProfile& profile = CostProfile::stated_default()) {
    std::vector<std::string> texts;
    for (int i = 0; i < 16; ++i) texts.push_back(text_ + std::string(100 + 10 * i, 'x'));
    auto dataset = std::make_unique<TextDataset>(std::move(texts));
    JobOrders orders = JobOrders::create(options_, *dataset).value();
    options_.cost_model.profile = std::make_shared<const CostProfile>(profile);
    return {options_,
            log_.sink(),
            clock_.clock(),
            std::move(dataset),
            Recipe::create({}).value(),
            make_in_process_decoder(Recipe::create({}).value(), std::chrono::minutes(1)),
            {},
            std::make_unique<OnlineModel>(profile, CostModel::Options{}, log_.sink()),
            nullptr,
            std::move(orders),
            BadSampleList::create(options_.bad_samples, {}).value(),
            {},
            {}};
  }
  StepDecoder decoder(const NodeParts& parts) {
    return StepDecoder({parts.dataset.get(), &parts.recipe, parts.decoder.get(), executor_.get(),
                        &budget_, &pool_, parts.bad.get(), parts.load_hook, nullptr, &retry_},
                       options_.bad_samples.policy, options_.plan.seed);
  }
  // Reports on every microbatch of a step that it took `factor` times the stated seconds.
  static void report_step(OnlineModel& model, const std::shared_ptr<SealedStep>& step,
                          double factor) {
    const CostModel stated(CostProfile::stated_default(), {});
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (std::uint32_t microbatch = 0; microbatch < 2; ++microbatch) {
        Report report;
        report.position = {step->epoch, step->step, microbatch};
        const PlannedMicrobatch& bin = step->plan.microbatch_of(rank, microbatch);
        report.seconds = {-1, -1, factor * stated.predict_microbatch(bin.run_load, bin.shape)[2]};
        EXPECT_TRUE(model.queue_measurement(measurement_of(step->plan, rank, report), step));
      }
    }
  }

  std::string text_;
  NodeOptions options_;
  ManualClock clock_;
  LogLines log_;
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  BufferPool pool_;
  MemoryBudget budget_{kGiB};
  std::unique_ptr<Executor> executor_ = make_executor(2);
  ReadRetry retry_{{.timeout = std::chrono::milliseconds(1)}};
};

TEST_F(StepSourceTest, SealsTheCursorsBatches) {
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  const auto step = steps.seal({0, 3, decoder, {}}).value();
  ASSERT_NE(step, nullptr);
  std::vector<SampleId> ids;
  for (const StepSample& sample : step->samples) ids.push_back(sample.id);
  EXPECT_EQ(ids, parts.orders.anew()->cursor.batch(0, 3));
  EXPECT_EQ(step->plan.receivers(), 2U);
  EXPECT_EQ(step->plan.microbatches, 2U);
  for (const StepSample& sample : step->samples) EXPECT_EQ(sample.readers, 1U);
}

// Samples of following steps are begun early, whatever the look-ahead.
TEST_F(StepSourceTest, AStepIsTheSameWhetherOrNotItsSamplesWereBegunBefore) {
  for (const std::int64_t lookahead : {1, 2}) {
    options_.plan.lookahead = lookahead;
    options_.plan.epochs = 2;
    options_.service.plan_ahead = 3;
    const NodeParts parts = this->parts();
    StepSource steps(parts);
    StepDecoder decoder = this->decoder(parts);
    steps.begin_job(2);
    for (std::uint32_t step = 0; step < 8; ++step) {
      const auto sealed = steps.seal({step / 4, step % 4, decoder, {}}).value();
      StepSource other(parts);
      StepDecoder fresh = this->decoder(parts);
      other.begin_job(2);
      const auto alone = other.seal({step / 4, step % 4, fresh, {}}).value();
      ASSERT_EQ(sealed->samples.size(), alone->samples.size());
      for (std::size_t i = 0; i < alone->samples.size(); ++i) {
        EXPECT_EQ(sealed->samples[i].key, alone->samples[i].key);
      }
      ASSERT_EQ(sealed->plan.bins.size(), alone->plan.bins.size());
      for (std::size_t bin = 0; bin < alone->plan.bins.size(); ++bin) {
        EXPECT_EQ(sealed->plan.bins[bin].predicted, alone->plan.bins[bin].predicted);
      }
    }
  }
}

TEST_F(StepSourceTest, PlansForTheRanksOfTheJob) {
  options_.plan.ranks = 0;
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(1);
  EXPECT_EQ(steps.seal({0, 0, decoder, {}}).value()->plan.receivers(), 1U);
  steps.begin_job(2);
  EXPECT_EQ(steps.seal({0, 0, decoder, {}}).value()->plan.receivers(), 2U);
}

TEST_F(StepSourceTest, AStepOfBadSamplesIsNull) {
  text_ = kNotUtf8;
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  EXPECT_EQ(steps.seal({0, 0, decoder, {}}).value(), nullptr);
  EXPECT_EQ(parts.bad->count(), 4U);
}

TEST_F(StepSourceTest, ReadsTheTimeOfPlanningFromItsClock) {
  NodeParts parts = this->parts();
  parts.clock = [this, now = clock_.clock()] {
    clock_.advance(20ms);
    return now();
  };
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  EXPECT_DOUBLE_EQ(steps.seal({0, 0, decoder, {}}).value()->plan_seconds, 0.02);
}

TEST_F(StepSourceTest, SavesTheCostModelsStateEveryEighthStep) {
  options_.cost_model.correction_file = scratch_ / "state";
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  for (std::uint32_t step = 0; step < 7; ++step) {
    const auto sealed = steps.seal({step / 4, step % 4, decoder, {}}).value();
    EXPECT_EQ(sealed->cost_model_state, "");
    report_step(*parts.model, sealed, 2);
  }
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "state"));
  const auto eighth = steps.seal({1, 3, decoder, {}}).value();
  EXPECT_NE(eighth->cost_model_state, "");
  EXPECT_EQ(read_file(scratch_ / "state"), eighth->cost_model_state);
  std::filesystem::remove(scratch_ / "state");
  steps.save_correction();
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "state"));
}

TEST_F(StepSourceTest, AFileThatCannotBeWrittenIsAWarning) {
  options_.cost_model.correction_file = scratch_ / "no folder" / "state";
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  report_step(*parts.model, steps.seal({0, 0, decoder, {}}).value(), 2);
  EXPECT_TRUE(steps.seal({0, 1, decoder, {}}));
  steps.save_correction();
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("training goes on without saving it")));
}

class ReceivedState : public StepSourceTest {
 protected:
  // The state of a node that measured twice the stated seconds.
  std::string state_of(const CostProfile& profile) {
    const NodeParts parts = this->parts(profile);
    StepSource steps(parts);
    StepDecoder decoder = this->decoder(parts);
    steps.begin_job(2);
    for (std::uint32_t step = 0; step < 40; ++step) {
      report_step(*parts.model, steps.seal({step / 4, step % 4, decoder, {}}).value(), 2);
    }
    EXPECT_TRUE(steps.seal({10, 0, decoder, {}}));
    return parts.model->save_state();
  }
};

TEST_F(ReceivedState, IsRestoredBeforeTheNextStepIsPlanned) {
  const std::string state = state_of(CostProfile::stated_default());
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  const double before = steps.seal({0, 0, decoder, {}}).value()->plan.makespan_s;
  std::jthread([&] { steps.receive_state(state); }).join();
  steps.receive_state(state);  // each rank brings the same
  EXPECT_GT(steps.seal({0, 0, decoder, {}}).value()->plan.makespan_s, 1.2 * before);
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(ReceivedState, IsOlderThanWhatTheNodeHasMeasured) {
  const std::string state = state_of(CostProfile::stated_default());
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  const auto first = steps.seal({0, 0, decoder, {}}).value();
  report_step(*parts.model, first, 1);
  steps.receive_state(state);
  EXPECT_NEAR(steps.seal({0, 0, decoder, {}}).value()->plan.makespan_s, first->plan.makespan_s,
              0.1 * first->plan.makespan_s);
}

TEST_F(ReceivedState, IsIgnoredWhereItDoesNotFit) {
  CostProfile other = CostProfile::stated_default();
  other.modules[2].coefficients.per_unit *= 2;
  const std::string state = state_of(other);
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  steps.receive_state(state);
  EXPECT_TRUE(steps.seal({0, 0, decoder, {}}));
  steps.receive_state("damaged");
  EXPECT_TRUE(steps.seal({0, 1, decoder, {}}));
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("belongs to another model profile"),
                                        HasSubstr("cannot be read")));
}

TEST_F(ReceivedState, IsIgnoredWithoutCorrection) {
  options_.cost_model.correct = false;
  const NodeParts parts = this->parts();
  StepSource steps(parts);
  StepDecoder decoder = this->decoder(parts);
  steps.begin_job(2);
  steps.receive_state("damaged");
  EXPECT_TRUE(steps.seal({0, 0, decoder, {}}));
  EXPECT_THAT(log_.lines(), IsEmpty());
}

}  // namespace
}  // namespace isocost
