#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

class ClosedLoop : public LoopTest {};

TEST_F(ClosedLoop, DeliversEverySampleOnceAndCountsLabels) {
  make_dataset(70);
  const Delivered run_result = run(options(2));
  const auto counts = run_result.counts(0);
  EXPECT_EQ(counts.size(), 70U);
  for (const auto& [id, times] : counts) EXPECT_EQ(times, 1) << id;
  EXPECT_EQ(run_result.summary.planned, 70U);
  EXPECT_EQ(run_result.summary.delivered, 70U);
  EXPECT_EQ(run_result.summary.steps_delivered, run_result.summary.steps);

  // The count that scales the loss is the number of labels that all ranks receive in the step.
  std::map<std::uint32_t, std::int64_t> labels;
  for (const auto& rank : run_result.ranks) {
    for (const Received& seen : rank) labels[seen.position.step] += seen.label_positions;
  }
  for (const auto& rank : run_result.ranks) {
    for (const Received& seen : rank) {
      EXPECT_EQ(static_cast<std::int64_t>(seen.global_label_tokens), labels[seen.position.step]);
    }
  }
}

TEST_F(ClosedLoop, SamplesComeWithTheirKeyJsonAndParts) {
  const std::filesystem::path files = scratch() / "files";
  std::filesystem::create_directories(files);
  const std::string json = R"({"text": "a cat", "url": "https://example.com/cat"})";
  const std::string long_json =
      R"({"text": "a dog", "notes": ")" + std::string(70'000, 'x') + "\"}";
  const auto image = test::make_png(56, 84, 1);
  const std::string label = R"({"label": 7})";
  for (const char* name : {"cat.png", "dog.png", "ant.png"}) {
    std::ofstream(files / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()),
               static_cast<std::streamsize>(image.size()));
  }
  std::ofstream(files / "cat.json") << json;
  std::ofstream(files / "dog.json") << long_json;
  std::ofstream(files / "ant.json") << label;
  ASSERT_TRUE(make_shards(files, shards(), {}).has_value());

  std::map<std::string, SampleEntry> samples;
  for (const auto& rank : run(options(1)).ranks) {
    for (const Received& received : rank) {
      for (const SampleEntry& sample : received.samples) samples[sample.key] = sample;
    }
  }
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::directory_iterator(shards())) {
    if (entry.path().extension() == ".tar") shard = entry.path().filename();
  }
  ASSERT_EQ(samples.size(), 3U);
  const SampleEntry& cat = samples[shard.string() + "/cat"];
  EXPECT_EQ(cat.json, json);
  const SamplePart picture{Modality::kImage, 6, 4, 1};
  EXPECT_EQ(cat.parts, (std::vector<SamplePart>{{Modality::kText}, picture}));
  const SampleEntry& dog = samples[shard.string() + "/dog"];
  EXPECT_EQ(dog.json, "") << "beyond kMaxSampleJsonBytes";
  EXPECT_EQ(dog.parts, cat.parts);
  const SampleEntry& ant = samples[shard.string() + "/ant"];
  EXPECT_EQ(ant.json, label) << "without a text for the model";
  EXPECT_EQ(ant.parts, std::vector<SamplePart>{picture});
}

TEST_F(ClosedLoop, TheSameDataForAnyWorkersRanksAndPolicy) {
  make_dataset(70);
  NodeOptions base = options(1);
  base.plan.epochs = 2;
  base.decode.workers = 1;
  const auto expected = run(base).batches();
  ASSERT_EQ(expected.size(), 10U);
  for (const std::int64_t ranks : {1, 2, 4}) {
    for (const BalancePolicy policy :
         {BalancePolicy::kInOrder, BalancePolicy::kTokens, BalancePolicy::kCost}) {
      NodeOptions other = options(ranks);
      other.plan.epochs = 2;
      other.decode.workers = 8;
      other.plan.balance = policy;
      EXPECT_EQ(run(other).batches(), expected) << ranks << " ranks";
    }
  }
  base.plan.seed = 1;
  EXPECT_NE(run(base).batches(), expected);
}

TEST_F(ClosedLoop, OneSeedOnePlan) {
  make_dataset(48);
  NodeOptions fixed = options(2);
  fixed.cost_model.correct = false;
  const auto first = run(fixed).plan_hashes();
  fixed.decode.workers = 3;
  EXPECT_EQ(run(fixed).plan_hashes(), first);
  EXPECT_EQ(first.size(), 3U);
}

TEST_F(ClosedLoop, EveryRankHasTheSameNumberOfMicrobatches) {
  make_dataset(53);  // 16 + 16 + 16 + 5
  const Delivered run_result = run(options(4));
  ASSERT_EQ(run_result.ranks.size(), 4U);
  for (const auto& rank : run_result.ranks) {
    ASSERT_EQ(rank.size(), run_result.ranks.front().size());
    for (std::size_t i = 0; i < rank.size(); ++i) {
      EXPECT_EQ(rank[i].position, run_result.ranks.front()[i].position);
      EXPECT_EQ(rank[i].plan_hash, run_result.ranks.front()[i].plan_hash);
    }
  }
  EXPECT_EQ(run_result.ranks.front().back().microbatches, 1U);
}

TEST_F(ClosedLoop, FewerSamplesThanRanksAreFilledWithRepeatsOfNoWeight) {
  make_dataset(18);  // 16 + 2 for 4 ranks
  const Delivered run_result = run(options(4));
  float weight = 0;
  std::size_t entries = 0;
  for (const auto& rank : run_result.ranks) {
    for (const Received& seen : rank) {
      if (seen.position.step != 1) continue;
      for (const SampleEntry& sample : seen.samples) {
        weight += sample.weight;
        ++entries;
      }
    }
  }
  EXPECT_EQ(entries, 4U);
  EXPECT_EQ(weight, 2.0F);
  EXPECT_EQ(run_result.summary.repeated, 2U);
  for (const auto& [id, times] : run_result.counts(0)) EXPECT_EQ(times, 1) << id;
}

TEST_F(ClosedLoop, TheTailIsDroppedOrCarriedOnRequest) {
  make_dataset(20);
  NodeOptions dropping = options(2);
  dropping.plan.tail = TailPolicy::kDrop;
  const Delivered dropped = run(dropping);
  EXPECT_EQ(dropped.counts(0).size(), 16U);
  ASSERT_EQ(dropped.epoch_ends.size(), 1U);
  EXPECT_EQ(dropped.epoch_ends.front().dropped, 4U);

  NodeOptions carrying = options(2);
  carrying.plan.tail = TailPolicy::kCarry;
  carrying.plan.epochs = 2;
  const Delivered carried = run(carrying);
  std::map<SampleId, int> times;
  for (const std::uint32_t epoch : {0U, 1U}) {
    for (const auto& [id, count] : carried.counts(epoch)) times[id] += count;
  }
  EXPECT_EQ(times.size(), 20U);
  for (const auto& [id, count] : times) EXPECT_EQ(count, 2) << id;
  EXPECT_EQ(carried.summary.dropped, 0U);
}

// The budget holds one or two decoded samples: most samples are decoded again, and none is lost.
TEST_F(ClosedLoop, ATinyMemoryBudgetDeliversAll) {
  make_dataset(40);
  NodeOptions tiny = options(2);
  tiny.decode.memory = 24 * kMiB;
  tiny.plan.epochs = 2;
  const Delivered run_result = run(tiny);
  for (const std::uint32_t epoch : {0U, 1U}) {
    EXPECT_EQ(run_result.counts(epoch).size(), 40U);
    for (const auto& [id, times] : run_result.counts(epoch)) EXPECT_EQ(times, 1) << id;
  }
  EXPECT_LE(run_result.summary.memory_peak_bytes, tiny.decode.memory);
}

// Rank 1 keeps its first microbatch until rank 0 has finished two steps. Credit and plans ahead let
// rank 0 continue; no sample is lost and no rank hangs.
TEST_F(ClosedLoop, ASlowRankDoesNotBlockOthers) {
  make_dataset(64);
  std::latch ahead(4);
  const Delivered run_result =
      run(options(2), [&](std::int64_t rank, Client&, const Microbatch& microbatch) {
        if (rank == 0 && microbatch.header.position.step < 2) ahead.count_down();
        if (rank == 1 && microbatch.header.position == Position{}) ahead.wait();
      });
  EXPECT_EQ(run_result.counts(0).size(), 64U);
  for (const auto& [id, times] : run_result.counts(0)) EXPECT_EQ(times, 1) << id;
}

TEST_F(ClosedLoop, MeasuredSecondsCorrectTheModel) {
  make_dataset(64);
  NodeOptions correcting = options(2);
  correcting.plan.epochs = 8;
  // On this machine each module takes a thousand times the seconds of the stated default.
  const CostProfile truth = CostProfile::stated_default();
  const Delivered run_result = run(correcting, [&](std::int64_t, Client& client,
                                                   const Microbatch& microbatch) {
    Report report{microbatch.header.position, {}};
    for (std::size_t i = 0; i < kModules; ++i) {
      report.seconds.at(i) =
          1000 *
          predict(truth.modules.at(i).coefficients, microbatch.header.load.modules.at(i)).count();
    }
    EXPECT_TRUE(client.report(report));
  });
  EXPECT_GT(run_result.summary.measurements, 100);
  // The first time of each module is far beyond the profile's.
  EXPECT_GE(run_result.summary.measurements_rejected, 1);
  EXPECT_LE(run_result.summary.measurements_rejected, kModules);
  EXPECT_LT(
      run_result.summary.prediction_error_ratio.at(static_cast<std::size_t>(CostModule::kLlm)),
      0.05);
}

// One rank is slow, and pictures are more expensive than profiled. Correction changes the plans but
// not the global batches.
TEST_F(ClosedLoop, MeasurementsChangePlansAndNeverTheData) {
  make_dataset(64);
  NodeOptions opts = options(2);
  opts.plan.epochs = 6;
  opts.service.plan_ahead = 1;
  const auto silent = run(opts);
  const CostModel truth(CostProfile::stated_default(), {});
  const auto reported =
      run(opts, [&truth](std::int64_t rank, Client& client, const Microbatch& microbatch) {
        Report report{microbatch.header.position, truth.predict_microbatch(microbatch.header.load)};
        report.seconds[0] *= 40;
        for (double& seconds : report.seconds) seconds *= rank == 1 ? 1.8 : 1;
        EXPECT_TRUE(client.report(report));
      });
  EXPECT_GT(reported.summary.measurements, 0);
  EXPECT_EQ(reported.batches(), silent.batches());
  EXPECT_NE(reported.plan_hashes(), silent.plan_hashes());
}

// This happens on a full disk: only what was learned is lost.
TEST_F(ClosedLoop, ACorrectionFileThatCannotBeWrittenEndsNoTraining) {
  make_dataset(64);
  NodeOptions opts = options(1);
  opts.plan.epochs = 2;
  const std::filesystem::path directory = scratch() / "kept";
  std::filesystem::create_directory(directory);
  opts.cost_model.correction_file = directory / "correction";
  const auto run_result = run(opts, [&directory](std::int64_t, Client&, const Microbatch&) {
    std::filesystem::remove_all(directory);
  });
  EXPECT_EQ(run_result.summary.delivered, 128U);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

// Reports as a machine does that is `times` slower than the stated default.
Status report_slow(Client& client, const MicrobatchHeader& header, double times) {
  Report report{header.position, {}};
  const CostModel truth(CostProfile::stated_default(), {});
  report.seconds = truth.predict_microbatch(header.load);
  for (double& seconds : report.seconds) seconds *= times;
  return client.report(report);
}

// A trainer may report its modules one after another, but each of them only once.
TEST_F(ClosedLoop, SecondsOfAMicrobatchCountOnce) {
  make_dataset(16);  // a step
  std::int64_t microbatches = 0;
  const auto train = [&](std::int64_t, Client& client, const Microbatch& microbatch) {
    ++microbatches;
    Report report{microbatch.header.position, {}};
    for (const std::size_t module : {2U, 0U, 2U}) {
      report.seconds.fill(kNotMeasured);
      report.seconds[module] = 0.1;
      EXPECT_TRUE(client.report(report));
    }
    EXPECT_TRUE(report_slow(client, microbatch.header, 3));
  };
  const NodeSummary summary = run(options(1), train).summary;
  EXPECT_GT(microbatches, 0);
  EXPECT_EQ(summary.measurements, 2 * microbatches);
  EXPECT_EQ(summary.measurements_rejected, 2 * microbatches);
}

TEST_F(ClosedLoop, TheCorrectionIsKeptForTheNextRun) {
  make_dataset(64);
  NodeOptions opts = options(1);
  opts.plan.epochs = 4;
  opts.cost_model.correction_file = scratch() / "correction";
  double first = 0;
  const auto train = [&first](std::int64_t, Client& client, const Microbatch& microbatch) {
    const MicrobatchHeader& header = microbatch.header;
    if (first == 0) first = header.predicted_seconds[2];
    EXPECT_TRUE(report_slow(client, header, 3));
  };
  run(opts, train);
  const double uncorrected = std::exchange(first, 0);
  run(opts, train);
  EXPECT_NEAR(first / uncorrected, 3, 0.3);

  opts.cost_model.profile_file = scratch() / "profile.json";
  CostProfile other = CostProfile::stated_default();
  other.modules[2].coefficients.per_unit *= 2;
  std::ofstream(opts.cost_model.profile_file) << other.to_json();
  first = 0;
  run(opts, train);  // with another model profile, it starts again
  EXPECT_LT(first / uncorrected, 2.1);

  std::ofstream(opts.cost_model.correction_file) << "no state";
  first = 0;
  run(opts, train);  // a damaged file is set aside
  EXPECT_LT(first / uncorrected, 2.1);
  EXPECT_TRUE(std::filesystem::exists(opts.cost_model.correction_file.string() + ".damaged"));

  // Without correction the file is neither read nor written.
  std::ofstream(opts.cost_model.correction_file) << "no state";
  opts.cost_model.correct = false;
  EXPECT_TRUE(try_run(opts, train));
  EXPECT_EQ(std::filesystem::file_size(opts.cost_model.correction_file), 8U);
}

// A run with another model profile overwrites nothing if it measured nothing.
TEST_F(ClosedLoop, ARunThatMeasuredNothingKeepsTheCorrectionFile) {
  make_dataset(64);
  NodeOptions opts = options(1);
  opts.plan.epochs = 4;
  opts.cost_model.correction_file = scratch() / "correction";
  run(opts, [](std::int64_t, Client& client, const Microbatch& microbatch) {
    EXPECT_TRUE(report_slow(client, microbatch.header, 3));
  });
  const auto bytes = [&opts] {
    std::ifstream file(opts.cost_model.correction_file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string kept = bytes();
  EXPECT_GT(kept.size(), 1000U);
  opts.cost_model.profile_file = scratch() / "profile.json";
  CostProfile other = CostProfile::stated_default();
  other.modules[2].coefficients.per_unit *= 2;
  std::ofstream(opts.cost_model.profile_file) << other.to_json();
  run(opts);
  EXPECT_EQ(bytes(), kept);
}

/// A node that serves one job after the other, and its log.
class LoggedNode {
 public:
  explicit LoggedNode(const NodeOptions& options)
      : thread_(Node::create(options, {}, [this](LogLevel, std::string_view text) {
                  note(text);
                }).value()) {}
  ~LoggedNode() {
    EXPECT_FALSE(thread_.wait({}).has_value()) << "the node ended before it was asked to stop";
    EXPECT_TRUE(thread_.stop());
  }
  LoggedNode(const LoggedNode&) = delete;
  LoggedNode& operator=(const LoggedNode&) = delete;

  const std::string& endpoint() const { return thread_.endpoint(); }
  /// The lines logged so far, one after another.
  std::string log() const {
    const MutexLock lock(mutex_);
    return log_;
  }

 private:
  void note(std::string_view text) {
    const MutexLock lock(mutex_);
    log_ += text;
  }

  mutable Mutex mutex_;
  std::string log_ ISOCOST_GUARDED_BY(mutex_);
  NodeThread thread_;
};

struct Trained {
  double first_s = 0;  ///< Predicted seconds of the first microbatch's LLM.
  double last_s = 0;   ///< Predicted seconds of the last microbatch's LLM.
  StartPoint state;    ///< Saved at the end.
};

/// Trains some epochs from a saved state. The trainer reports `slow` times the seconds of the
/// stated default; 0: it reports nothing.
Trained train(const LoggedNode& serving, const StartPoint& start, std::uint32_t epochs,
              double slow) {
  Trained trained;
  trained.state = start;
  ClientOptions options;
  options.endpoint = serving.endpoint();
  options.start = start;
  options.accept_other_data = true;  // the tests make states by hand
  const auto client = Client::connect(options).value();
  EXPECT_EQ(client->welcome().start.cost_model_state, "");
  for (std::uint32_t end = start.epoch + epochs; trained.state.epoch < end; ++trained.state.epoch) {
    while (const auto next = client->next({}).value()) {
      const MicrobatchHeader& header = next->header;
      trained.last_s = header.predicted_seconds[2];
      if (trained.first_s == 0) trained.first_s = trained.last_s;
      if (!header.cost_model_state.empty())
        trained.state.cost_model_state = header.cost_model_state;
      if (slow > 0) {
        EXPECT_TRUE(report_slow(*client, header, slow));
      }
    }
  }
  client->close();
  return trained;
}

Trained train_at_new_node(const NodeOptions& options, const StartPoint& start, std::uint32_t epochs,
                          double slow) {
  return train(LoggedNode(options), start, epochs, slow);
}

class SavedState : public ClosedLoop {
 protected:
  void SetUp() override {
    make_dataset(64);
    options_ = options(1);
    options_.plan.global_batch_size = 4;  // 16 steps an epoch
    options_.plan.epochs = 0;
    fresh_ = train_at_new_node(options_, {0, kEpochs, 0, {}}, 1, 0);
    EXPECT_EQ(fresh_.state.cost_model_state, "");  // nothing was known
  }
  // Epochs after which the correction is well past its first measurements.
  static constexpr std::uint32_t kEpochs = 5;
  StartPoint state_of(double slow) const {
    return train_at_new_node(options_, {}, kEpochs, slow).state;
  }

  NodeOptions options_;
  Trained fresh_;  // from then on
};

TEST_F(SavedState, RestoresTheCorrection) {
  const StartPoint saved = state_of(3);
  EXPECT_GT(saved.cost_model_state.size(), 1000U);
  EXPECT_NEAR(train_at_new_node(options_, saved, 1, 0).first_s / fresh_.first_s, 3, 0.3);
  // A job that starts at the first step joins the one that the node has begun to plan.
  const double last_s = train_at_new_node(options_, {}, 1, 0).last_s;
  EXPECT_NEAR(train_at_new_node(options_, {0, 0, 0, saved.cost_model_state}, 1, 0).last_s / last_s,
              3, 0.3);

  options_.cost_model.correct = false;
  EXPECT_EQ(train_at_new_node(options_, saved, 1, 0).first_s, fresh_.first_s);
}

TEST_F(SavedState, HoldsForTheModelProfileOfItsRun) {
  options_.cost_model.profile_file = scratch() / "profile.json";
  std::ofstream(options_.cost_model.profile_file) << CostProfile::stated_default().to_json();
  const StartPoint saved = state_of(3);
  const std::filesystem::path moved = scratch() / "moved.json";
  std::filesystem::rename(options_.cost_model.profile_file, moved);
  options_.cost_model.profile_file = moved;
  EXPECT_NEAR(train_at_new_node(options_, saved, 1, 0).first_s / fresh_.first_s, 3, 0.3);

  CostProfile other = CostProfile::stated_default();
  other.modules[2].coefficients.per_unit *= 2;
  std::ofstream(options_.cost_model.profile_file) << other.to_json();
  const LoggedNode serving(options_);
  EXPECT_LT(train(serving, saved, 1, 0).first_s / fresh_.first_s, 2.1);
  EXPECT_NE(serving.log().find("belongs to another model profile"), std::string::npos)
      << serving.log();
}

TEST_F(SavedState, IsIgnoredIfItIsDamaged) {
  StartPoint saved = state_of(3);
  saved.cost_model_state.back() ^= 1;
  const LoggedNode serving(options_);
  EXPECT_EQ(train(serving, saved, 1, 0).first_s, fresh_.first_s);
  EXPECT_NE(serving.log().find("cannot be read"), std::string::npos) << serving.log();
  ClientOptions of_client;
  of_client.endpoint = serving.endpoint();
  of_client.start = StartPoint{0, 0, 0, std::string(kMaxCostModelStateBytes + 1, 'x')};
  EXPECT_EQ(Client::connect(of_client).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(SavedState, ReplacesTheOneBefore) {
  const StartPoint slow = state_of(3);
  const StartPoint slower = state_of(6);
  const LoggedNode serving(options_);
  EXPECT_NEAR(train(serving, slow, 1, 0).first_s / fresh_.first_s, 3, 0.3);
  EXPECT_NEAR(train(serving, slower, 1, 0).first_s / fresh_.first_s, 6, 0.6);
}

TEST_F(SavedState, DoesNotReplaceWhatTheNodeHasMeasured) {
  const StartPoint slow = state_of(3);
  const LoggedNode serving(options_);
  train(serving, {}, kEpochs, 6);
  EXPECT_NEAR(train(serving, slow, 1, 0).first_s / fresh_.first_s, 6, 0.6);
}

// The model has changed and a trainer has measured a new model profile. A node that was started
// with the old one adopts the new one from the saved state.
TEST_F(SavedState, BringsTheProfileThatATrainerMeasured) {
  options_.plan.reprofile = true;
  options_.plan.reprofile_budget = 1;
  StartPoint saved = state_of(3);
  const LoggedNode serving(options_);
  CostProfile measured = CostProfile::stated_default();
  for (ModuleProfile& module : measured.modules) {
    ModuleCoefficients& of = module.coefficients;
    of = {10 * of.per_microbatch, 10 * of.per_sequence, 10 * of.per_unit, 10 * of.per_unit_squared};
  }
  ClientOptions of_client;
  of_client.endpoint = serving.endpoint();
  of_client.start = saved;
  of_client.accept_other_data = true;
  const auto client = Client::connect(of_client).value();
  bool sent = false;
  // It is asked once a second of training allows it.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int after = 0; after < 150 && std::chrono::steady_clock::now() < until;
       after += sent ? 1 : 0) {
    const auto next = client->next({}).value();
    if (!next) continue;
    if (!next->header.cost_model_state.empty())
      saved.cost_model_state = next->header.cost_model_state;
    if (next->header.profile_wanted()) {
      EXPECT_TRUE(client->send_profile({measured.to_json(), 0.01, {}}));
      sent = true;
    }
    EXPECT_TRUE(report_slow(*client, next->header, 10));
  }
  EXPECT_TRUE(sent);
  client->close();
  EXPECT_NEAR(train_at_new_node(options_, saved, 1, 0).first_s / fresh_.first_s, 10, 1);
  const LoggedNode without(options_);  // asks for no profile at its first step
  EXPECT_NEAR(train(without, saved, 1, 10).first_s / fresh_.first_s, 10, 1);
  EXPECT_EQ(without.log().find("asking rank 0 to measure"), std::string::npos) << without.log();
}

}  // namespace
}  // namespace isocost
