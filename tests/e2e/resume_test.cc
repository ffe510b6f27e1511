#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/log_lines.h"
#include "tests/transport/zmq/raw_peer.h"

namespace isocost {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using Step = std::pair<std::uint32_t, std::uint32_t>;  // epoch, step
using Batches = std::map<Step, std::multiset<SampleId>>;

// A start point without cost model state. Cursor 0 matches any cursor of the node.
StartPoint start_at(std::uint32_t epoch, std::uint32_t step, std::uint64_t cursor = 0) {
  StartPoint start;
  start.cursor = cursor;
  start.epoch = epoch;
  start.step = step;
  return start;
}

// One node serves several jobs, as if trainers were restarted beside it.
class Resume : public LoopTest {
 protected:
  void serve(const NodeOptions& options) {
    serving_.emplace(Node::create(options, {}, node_log).value());
  }
  // Waits for the end of the node's last epoch.
  void finish() {
    summary_ = serving_->wait(std::chrono::minutes(1));
    EXPECT_TRUE(summary_.has_value()) << "the node still serves";
  }
  const std::string& endpoint() const { return serving_->endpoint(); }
  // Returns the cursor of the last job, as saved states hold it.
  std::uint64_t cursor() const { return cursor_; }
  const std::optional<Result<NodeSummary>>& summary() const { return summary_; }

  ClientOptions client(std::int32_t rank, std::int32_t ranks,
                       std::optional<StartPoint> start) const {
    ClientOptions options;
    options.endpoint = endpoint();
    options.rank = rank;
    options.world_size = ranks;
    options.start = start;
    options.accept_other_data = start && start->cursor == 0;
    return options;
  }

  // Called for each microbatch on the thread of its rank.
  using Train = std::function<void(Client&, std::int32_t rank, const MicrobatchHeader&)>;

  // All ranks of a job train the steps from `start` up to but not including `stop` (all steps
  // without it), receive one more microbatch, and disconnect without a leave. Returns what was
  // trained.
  Batches train(std::int32_t ranks, const StartPoint& start, std::optional<Step> stop,
                const Train& work = {}) {
    std::vector<Batches> seen(static_cast<std::size_t>(ranks));
    {
      std::vector<std::jthread> threads;
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          train_rank(client(rank, ranks, start), stop, work, seen[static_cast<std::size_t>(rank)]);
        });
      }
    }
    Batches all;
    for (const Batches& of_rank : seen) {
      for (const auto& [step, ids] : of_rank) all[step].insert(ids.begin(), ids.end());
    }
    return all;
  }

 private:
  void train_rank(const ClientOptions& options, std::optional<Step> stop, const Train& work,
                  Batches& seen) {
    const auto connected = Client::connect(options);
    ASSERT_TRUE(connected.has_value()) << connected.error().message();
    Client& client = **connected;
    cursor_ = client.welcome().start.cursor;
    for (;;) {
      const auto next = client.next({});
      ASSERT_TRUE(next.has_value()) << next.error().message();
      if (!next->has_value()) {
        if (client.epoch_end()->last_epoch) {
          client.close();
          return;
        }
        continue;
      }
      const MicrobatchHeader& header = (*next)->header;
      const Step step{header.position.epoch, header.position.step};
      if (stop && step >= *stop) return;
      for (const SampleEntry& sample : header.samples) {
        if (sample.weight > 0) seen[step].insert(sample.id);
      }
      if (work) work(client, options.rank, header);
    }
  }

  std::atomic<std::uint64_t> cursor_ = 0;
  std::optional<Result<NodeSummary>> summary_;
  std::optional<NodeThread> serving_;
};

TEST_F(Resume, AnywhereWithAnotherWorldSizeGivesTheSameBatches) {
  make_dataset(70);  // 5 steps an epoch
  NodeOptions base = options(1);
  base.plan.epochs = 3;
  const Batches expected = run(base).batches();
  ASSERT_EQ(expected.size(), 15U);

  base.plan.ranks = 0;
  serve(base);
  Batches trained;
  Random random(7);
  Step at{0, 0};
  for (int job = 0; job < 12; ++job) {
    const std::int32_t ranks = job % 2 == 0 ? 2 : 1 + static_cast<std::int32_t>(random.below(4));
    Step stop{at.first, at.second + static_cast<std::uint32_t>(random.below(3))};
    if (stop.second >= 5) stop = {stop.first + 1, stop.second - 5};
    if (stop.first >= 3) break;
    for (auto& [step, ids] : train(ranks, start_at(at.first, at.second), stop)) trained[step] = ids;
    at = stop;
  }
  for (auto& [step, ids] : train(3, start_at(at.first, at.second), {})) trained[step] = ids;
  finish();
  EXPECT_EQ(trained, expected);
  EXPECT_TRUE(summary()->has_value());
}

// Batches are composed in windows of three, and jobs stop and start within windows.
TEST_F(Resume, WithinAWindowOfTheLookaheadGivesTheSameBatches) {
  make_dataset(118);  // 8 steps an epoch, the last a smaller one
  NodeOptions base = options(6);
  base.plan.microbatches = 1;
  base.plan.epochs = 2;
  const Batches drawn = run(base).batches();
  base.plan.lookahead = 3;
  const Delivered whole = run(base);
  const Batches expected = whole.batches();
  ASSERT_EQ(expected.size(), 16U);
  EXPECT_NE(expected, drawn);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    const auto counts = whole.counts(epoch);
    EXPECT_EQ(counts.size(), 118U);
    for (const auto& [id, count] : counts) EXPECT_EQ(count, 1) << id;
  }

  serve(base);
  Batches trained;
  Step at{0, 0};
  for (const Step& stop :
       {Step{0, 1}, Step{0, 2}, Step{0, 4}, Step{0, 7}, Step{1, 2}, Step{1, 5}}) {
    for (auto& [step, ids] : train(6, start_at(at.first, at.second), stop)) trained[step] = ids;
    at = stop;
  }
  for (auto& [step, ids] : train(6, start_at(at.first, at.second), {})) trained[step] = ids;
  finish();
  EXPECT_EQ(trained, expected);
}

TEST_F(Resume, WithOtherRanksOnlyAtAWindowsStart) {
  make_dataset(96);  // 6 steps
  NodeOptions two = options(2);
  two.plan.lookahead = 3;
  serve(two);
  const Batches first = train(2, {}, Step{0, 3});
  const std::uint64_t cursor = this->cursor();
  train(2, start_at(0, 3, cursor), {});
  finish();

  NodeOptions three = options(3);
  three.plan.lookahead = 3;
  serve(three);
  const auto refused = Client::connect(client(0, 3, start_at(0, 2, cursor)));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("within a look-ahead window also the ranks"),
            std::string::npos)
      << refused.error().message();
  Batches all = train(3, start_at(0, 3, cursor), {});
  finish();
  all.insert(first.begin(), first.end());
  std::multiset<SampleId> ids;
  for (const auto& [step, batch] : all) ids.insert(batch.begin(), batch.end());
  EXPECT_EQ(ids.size(), 96U);
  EXPECT_EQ(std::set<SampleId>(ids.begin(), ids.end()).size(), 96U);
}

TEST_F(Resume, ManyJobsFromTheSameStep) {
  make_dataset(48);
  serve(options(0));
  for (int job = 0; job < 200; ++job) {
    const auto client = Client::connect(this->client(0, 1, StartPoint{})).value();
    const auto first = client->next({});
    ASSERT_TRUE(first.has_value() && first->has_value());
    EXPECT_EQ((*first)->header.position, (Position{0, 0, 0}));
  }
  EXPECT_EQ(train(1, {}, {}).size(), 3U);
  finish();
}

TEST_F(Resume, AtTheEndOfAnEpochItsEndComesFirst) {
  make_dataset(40);
  NodeOptions two = options(0);
  two.plan.epochs = 2;
  serve(two);
  const auto client = Client::connect(this->client(0, 1, start_at(0, 3))).value();
  const auto nothing = client->next({});
  ASSERT_TRUE(nothing.has_value());
  EXPECT_FALSE(nothing->has_value());
  EXPECT_EQ(client->epoch_end()->epoch, 0U);
  const auto first = client->next({});
  ASSERT_TRUE(first.has_value() && first->has_value());
  EXPECT_EQ((*first)->header.position, (Position{1, 0, 0}));
  while (client->next({}).value().has_value()) {
  }
  client->close();
  finish();
}

TEST_F(Resume, AStateAfterTheLastEpochEndsAtOnce) {
  make_dataset(20);
  serve(options(2));
  EXPECT_TRUE(train(2, start_at(1, 0), {}).empty());
  finish();
  EXPECT_TRUE(summary()->has_value());
}

// The ranks of the next job may run on other hosts.
TEST_F(Resume, SlowdownsAreNotCarriedToTheNextJob) {
  make_dataset(128);  // 8 steps
  NodeOptions two_epochs = options(0);
  two_epochs.plan.epochs = 2;
  serve(two_epochs);
  const CostModel truth(CostProfile::stated_default(), {});
  Mutex mutex;
  std::map<Step, std::array<double, 2>> given;  // predicted seconds of each rank's work
  const auto slow = [&](double times) {
    return [&, times](Client& client, std::int32_t rank, const MicrobatchHeader& header) {
      Report report{header.position, truth.predict_microbatch(header.load)};
      const MutexLock lock(mutex);
      for (double& seconds : report.seconds) {
        given[{header.position.epoch, header.position.step}].at(static_cast<std::size_t>(rank)) +=
            seconds;
        if (rank == 0) seconds *= times;
      }
      EXPECT_TRUE(client.report(report));
    };
  };
  train(2, start_at(0, 0), Step{1, 4}, slow(3));
  const std::array<double, 2> before = given.at({1, 3});
  EXPECT_LT(before[0], 0.6 * before[1]);
  train(2, start_at(1, 4), {}, slow(1));
  const std::array<double, 2> after = given.at({1, 4});
  EXPECT_NEAR(after[0] / after[1], 1, 0.25);
  finish();
}

TEST_F(Resume, RefusesAStateOfOtherData) {
  make_dataset(20);
  serve(options(0));
  const auto good = Client::connect(client(0, 1, StartPoint{})).value();
  const StartPoint mine = start_at(0, 1, good->welcome().start.cursor);
  EXPECT_NE(mine.cursor, 0U);
  good->close();
  const auto other = Client::connect(client(0, 1, start_at(0, 1, mine.cursor + 1)));
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(other.error().message().find("seed, shuffle, shuffle_shards, global_batch_size"),
            std::string::npos);
  StartPoint of_mixture = mine;
  of_mixture.mixture = R"({"version": 1, "seed": "0000000000000000", "shuffled": true,
    "global_batch_size": 16, "sources": [{"name": "a", "size": 9,
    "fingerprint": "0000000000000000"}]})";
  const auto mixed = Client::connect(client(0, 1, of_mixture));
  ASSERT_FALSE(mixed.has_value());
  EXPECT_NE(
      mixed.error().message().find("of a mixture of data sets, and the node has one data set"),
      std::string::npos);
  train(1, mine, {});
  finish();
}

// A cursor of the version before says nothing of the data, so that whoever knows that they are the
// same leaves it out.
TEST_F(Resume, AnOldCursorIsRefusedAndGoesOnWithoutIt) {
  make_dataset(20);
  NodeOptions options = this->options(0);
  options.plan.epochs = 2;
  serve(options);
  const Step second_epoch{1, 0};
  const Batches whole = train(1, start_at(0, 0), second_epoch);
  StartPoint old = start_at(0, 1, 0xf1e2d3);
  old.state_version = 2;
  const auto refused = Client::connect(client(0, 1, old));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  for (const std::string part : {"resumes a state of version 2", "set its 'cursor' to \"0\"",
                                 "accept_other_data", "goes on at epoch 0, step 1"}) {
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
  old.cursor = 0;
  const Batches rest = train(1, old, second_epoch);
  EXPECT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest.at({0, 1}), whole.at({0, 1}));
  EXPECT_NE(rest.at({0, 1}), whole.at({0, 0}));
  train(1, start_at(1, 0), {});
  finish();
}

NodeOptions in_blocks(NodeOptions options, std::int64_t window_shards) {
  options.plan.shuffle = ShufflePolicy::kBlocks;
  options.plan.shuffle_shards = window_shards;
  return options;
}

TEST_F(Resume, InBlocksAnywhereWithAnotherWorldSizeGivesTheSameBatches) {
  make_dataset(150);  // ten shards, 10 steps an epoch
  NodeOptions base = in_blocks(options(1), 3);
  base.plan.epochs = 2;
  base.decode.workers = 1;
  const Delivered whole = run(base);
  const Batches expected = whole.batches();
  ASSERT_EQ(expected.size(), 20U);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    const auto counts = whole.counts(epoch);
    EXPECT_EQ(counts.size(), 150U);
    for (const auto& [id, count] : counts) EXPECT_EQ(count, 1) << id;
  }
  for (const auto& [step, ids] : expected) {
    std::set<SampleId> shards;
    for (const SampleId id : ids) shards.insert(id / 16);
    EXPECT_LE(shards.size(), 6U) << "of two windows at most";
  }
  NodeOptions four = base;
  four.plan.ranks = 4;
  four.decode.workers = 3;
  EXPECT_EQ(run(four).batches(), expected);

  base.plan.ranks = 0;
  serve(base);
  Batches trained;
  Step at{0, 0};
  std::int32_t ranks = 1;
  for (const Step& stop : {Step{0, 2}, Step{0, 7}, Step{1, 0}, Step{1, 3}, Step{1, 9}}) {
    for (auto& [step, ids] : train(ranks, start_at(at.first, at.second, cursor()), stop)) {
      trained[step] = ids;
    }
    at = stop;
    ranks = ranks % 3 + 1;
  }
  for (auto& [step, ids] : train(2, start_at(at.first, at.second, cursor()), {})) {
    trained[step] = ids;
  }
  finish();
  EXPECT_EQ(trained, expected);
}

// Returns why a node refuses a state with this cursor.
std::string refusal_of(const NodeOptions& options, std::uint64_t cursor) {
  NodeThread node(Node::create(options, {}, {}).value());
  ClientOptions client{.endpoint = node.endpoint(), .world_size = 1};
  client.start = start_at(0, 1, cursor);
  const auto connected = Client::connect(client);
  return connected ? "" : connected.error().message();
}

// Returns the cursor of states that a node's clients save.
std::uint64_t cursor_of(const NodeOptions& options) {
  NodeThread node(Node::create(options, {}, {}).value());
  return Client::connect({.endpoint = node.endpoint(), .world_size = 1})
      .value()
      ->welcome()
      .start.cursor;
}

TEST_F(Resume, AStateOfAnotherOrderIsRefusedByItsName) {
  make_dataset(100);  // seven shards
  for (const std::int64_t lookahead : {1, 2}) {
    NodeOptions global = options(1);
    global.plan.lookahead = lookahead;
    NodeOptions off = global;
    off.plan.shuffle = ShufflePolicy::kOff;
    const std::uint64_t of_three = cursor_of(in_blocks(global, 3));
    EXPECT_EQ(refusal_of(in_blocks(global, 3), of_three), "");
    const std::string given =
        "resumes a saved state: it is of shuffle = blocks and shuffle_shards = 3, and the node "
        "has ";
    EXPECT_THAT(refusal_of(global, of_three), HasSubstr(given + "shuffle = global: give"));
    EXPECT_THAT(refusal_of(off, of_three), HasSubstr(given + "shuffle = off: give"));
    EXPECT_THAT(refusal_of(in_blocks(global, 4), of_three),
                HasSubstr(given + "shuffle = blocks and shuffle_shards = 4: give"));
    EXPECT_THAT(refusal_of(in_blocks(global, 3), cursor_of(global)),
                HasSubstr("it is of shuffle = global, and the node has shuffle = blocks and "
                          "shuffle_shards = 3: give"));
    EXPECT_THAT(refusal_of(off, cursor_of(global)),
                HasSubstr("it is of shuffle = global, and the node has shuffle = off: give"));
    // All windows of seven shards or more are the same.
    EXPECT_EQ(refusal_of(in_blocks(global, 7), cursor_of(in_blocks(global, 500))), "");
    EXPECT_THAT(refusal_of(global, cursor_of(in_blocks(global, 500))),
                HasSubstr("shuffle_shards = 7 or more, and"));
    // If more differs, nothing is guessed.
    NodeOptions seeded = in_blocks(global, 3);
    seeded.plan.seed += 1;
    EXPECT_THAT(refusal_of(global, cursor_of(seeded)),
                HasSubstr("seed, shuffle, shuffle_shards, global_batch_size"));
  }
}

// The lines that a node logs of its order when it starts.
TEST_F(Resume, OneWindowOfAllShardsIsSaidOnce) {
  make_dataset(40);  // three shards
  const auto notes = [&](const NodeOptions& options) {
    LogLines log;
    const auto node = Node::create(options, {}, log.sink());
    EXPECT_TRUE(node);
    std::string said;
    for (const std::string& line : log.lines()) {
      if (line.find("shuffle") != std::string::npos) said += line + "\n";
    }
    return said;
  };
  EXPECT_THAT(notes(in_blocks(options(1), 16)),
              HasSubstr("a window has 16 shards (shuffle_shards), and there are 3 shards with "
                        "samples: the samples of all are permuted"));
  EXPECT_EQ(notes(in_blocks(options(1), 2)), "");
  EXPECT_EQ(notes(options(1)), "");
  NodeOptions none = in_blocks(options(1), 0);
  const auto refused = Node::create(none, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("shuffle_shards = 0"));
}

TEST_F(Resume, RefusesAStartBeyondTheData) {
  make_dataset(20);  // 2 steps, 1 epoch
  serve(options(0));
  for (const StartPoint& start :
       {start_at(0, 3), start_at(1, 1), start_at(2, 0), start_at(4'000'000'000, 4'000'000'000)}) {
    const auto refused = Client::connect(client(0, 1, start));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message().find("cannot start from"), std::string::npos);
  }
  EXPECT_EQ(train(1, {}, {}).size(), 2U);
  finish();
}

// A client id that claims ranks of two jobs does not keep a rank of the first job taken.
TEST_F(Resume, OneClientIdMayBeUsedAtTwoRanks) {
  make_dataset(20);
  serve(options(0));
  {
    RawPeer first(endpoint());
    RawPeer second(endpoint());
    Hello hello;
    hello.client_id.fill(7);
    hello.rank = 3;
    hello.world_size = 4;
    first.send(hello);
    const auto welcome = first.receive_as<Welcome>();
    ASSERT_TRUE(welcome.has_value());
    hello.rank = 0;
    hello.world_size = 2;
    second.send(hello);
    EXPECT_TRUE(second.receive_as<Refusal>().has_value());
    first.send(Credit{3, welcome->session});
    first.send(Report{{0, 0, 0}, {1, 1, 1}});
    first.send(Acknowledgement{{9, 9, 9}});
    first.send(Leave{});
  }
  EXPECT_EQ(train(1, {}, {}).size(), 2U);
  finish();
}

TEST_F(Resume, RanksThatDisagreeAreRefusedWithTheReason) {
  make_dataset(20);
  serve(options(0));
  const auto first = Client::connect(client(0, 2, StartPoint{})).value();
  const auto reason = [&](std::int32_t ranks, const StartPoint& start) {
    const auto other = Client::connect(client(1, ranks, start));
    return other ? "let in" : other.error().message();
  };
  EXPECT_NE(reason(4, {}).find("job of 4 ranks"), std::string::npos) << reason(4, {});
  EXPECT_NE(reason(2, start_at(0, 1)).find("from epoch 0, step 1"), std::string::npos);
  first->close();
  EXPECT_NE(reason(100'001, {}).find("allowed are"), std::string::npos);
  train(1, {}, {});
  finish();
}

// Planning waits for the rank that is furthest behind. If no trainer holds it, its peers learn of
// it.
TEST_F(Resume, RanksThatWaitForAMissingRankAreTold) {
  make_dataset(70);  // 5 steps; two are planned ahead
  NodeOptions impatient = options(2);
  impatient.service.heartbeat_timeout = std::chrono::milliseconds(300);
  serve(impatient);
  for (const bool came : {false, true}) {
    const auto left = Client::connect(client(0, 2, StartPoint{})).value();
    if (came) Client::connect(client(1, 2, StartPoint{})).value()->next({}).value();
    auto next = left->next({});
    while (next && *next) next = left->next({});
    ASSERT_FALSE(next.has_value());
    EXPECT_EQ(next.error().code(), ErrorCode::kUnavailable);
    const std::string reason = came ? "rank 1 has left" : "rank 1 never joined";
    EXPECT_NE(next.error().message().find(reason), std::string::npos) << next.error().message();
  }
  EXPECT_EQ(train(2, {}, {}).size(), 5U);
  finish();
}

// The gradients of a step end with the run that did not finish it.
TEST_F(Resume, ANewRunWithoutAStateRepeatsTheStepThatTheLastOneLeft) {
  make_dataset(40);
  LogLines log;
  node_log = log.sink();
  NodeOptions several = options(2);
  several.plan.microbatches = 2;
  serve(several);
  {
    const auto first = Client::connect(client(0, 2, {})).value();
    const auto other = Client::connect(client(1, 2, {})).value();
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(first->next().value().has_value());  // into step 1
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(other->next().value().has_value());
    first->close();
    other->close();
  }
  for (const std::int32_t rank : {1, 0}) {
    const auto again = Client::connect(client(rank, 2, {})).value();
    EXPECT_EQ(again->welcome().start.step, 1U) << rank;
    EXPECT_EQ(again->next().value()->header.position, (Position{0, 1, 0})) << rank;
  }
  EXPECT_THAT(log.lines(), Contains(HasSubstr("epoch 0, step 1 is delivered again from its first "
                                              "microbatch")));
}

// The weights of a client without a start may be fresh, whatever the node has delivered before.
TEST_F(Resume, AClientWithoutAStartIsToldWhereItGoesOn) {
  make_dataset(70);  // 5 steps
  LogLines node_lines;
  node_log = node_lines.sink();
  serve(options(0));
  LogLines first;
  LogLines second;
  LogLines third;
  const auto connect = [&](LogLines& told, std::optional<StartPoint> start) {
    ClientOptions options = client(0, 1, std::move(start));
    options.log = told.sink();
    return Client::connect(options).value();
  };
  const auto take = [](Client& client, int microbatches) {
    for (int i = 0; i < microbatches; ++i) ASSERT_TRUE(client.next().value().has_value());
    client.close();
  };
  take(*connect(first, {}), 2);
  EXPECT_THAT(first.lines(), Not(Contains(HasSubstr("joins")))) << "it began at the first step";
  take(*connect(second, {}), 1);
  const std::string place = "rank 0 joins without a start and goes on at epoch 0, step 1";
  EXPECT_THAT(second.lines(), Contains(HasSubstr("the node: " + place)));
  EXPECT_THAT(node_lines.lines(), Contains(HasSubstr(place)));
  const auto anew = connect(third, StartPoint{});
  EXPECT_EQ(anew->next().value()->header.position, (Position{0, 0, 0}));
  anew->close();
  EXPECT_THAT(third.lines(), Not(Contains(HasSubstr("joins")))) << "it said where it begins";
}

// Its rank continues, since the others wait for it, but the step's gradient is not whole.
TEST_F(Resume, ARankThatComesBackInsideAStepIsToldThatGradientsAreLost) {
  make_dataset(40);
  NodeOptions several = options(2);
  several.plan.microbatches = 2;
  serve(several);
  const auto stays = Client::connect(client(0, 2, {})).value();
  {
    const auto leaves = Client::connect(client(1, 2, {})).value();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(leaves->next().value().has_value());
    leaves->leave();
  }
  LogLines told;
  ClientOptions options = client(1, 2, {});
  options.log = told.sink();
  const auto again = Client::connect(options).value();
  EXPECT_EQ(again->next().value()->header.position, (Position{0, 0, 1}));
  EXPECT_THAT(told.lines(), Contains(HasSubstr("rank 1 joins inside epoch 0, step 0, of which its "
                                               "last client trained 1 microbatch: ")));
  again->close();
  stays->close();
}

TEST_F(Resume, ARestartWaitsUntilTheOldJobHasLeft) {
  make_dataset(40);
  serve(options(0));
  auto old_job = Client::connect(client(0, 1, StartPoint{})).value();
  ASSERT_TRUE(old_job->next({}).value().has_value());
  ASSERT_TRUE(old_job->next({}).value().has_value());  // acknowledges the first

  ClientOptions impatient = client(1, 2, start_at(0, 1));
  impatient.connect_timeout = std::chrono::milliseconds(100);
  const auto early = Client::connect(impatient);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(early.error().message().find("still connected"), std::string::npos);

  std::optional<Batches> trained;
  std::jthread restarted([&] { trained = train(2, start_at(0, 1), {}); });
  old_job.reset();
  restarted.join();
  finish();
  EXPECT_EQ(trained->size(), 2U);
}

}  // namespace
}  // namespace isocost
