#include "loader/node/decoding/internal/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/loader/node/node_support.h"
#include "tests/support/manual_executor.h"

namespace isocost {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::NotNull;

using Ids = std::vector<SampleId>;

// Samples that begin in their order; those from 200 on are of 8 MiB.
class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() {
    dataset_.on_read_ahead = [this](SampleId id) { asked_.push_back(id); };
  }
  void begin(ReadAhead& read_ahead, SampleId id, SampleId last = 199) {
    read_ahead.decoding_begins(id, [&](std::size_t after) {
      const SampleId next = id + 1 + after;
      return next <= last ? std::optional(next) : std::nullopt;
    });
    run_threads();
  }
  void run_threads() {
    while (threads_.waiting() > 0) threads_.run_first();
  }
  void begin(SampleId id, SampleId last = 199) { begin(read_ahead_, id, last); }

  Ids asked_;
  static std::vector<std::string> texts() {
    std::vector<std::string> texts(200, "x");
    texts.resize(210, std::string(std::size_t{8} << 20, 'x'));
    return texts;
  }

  TextDataset dataset_{texts()};
  ManualExecutor threads_;
  ReadAhead read_ahead_{dataset_, threads_, 0};
};

TEST_F(ReadAheadTest, EachSampleIsAskedForOnceAndInOrder) {
  for (SampleId id = 0; id < 200; ++id) begin(id);
  Ids expected(199);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(asked_, expected);
}

TEST_F(ReadAheadTest, TwoAreAskedForAtOnceUpTo64) {
  begin(0);
  EXPECT_THAT(asked_, ElementsAre(1, 2));
  begin(1);
  EXPECT_THAT(asked_, ElementsAre(1, 2, 3, 4));
  for (SampleId id = 2; id < 100; ++id) {
    begin(id);
    EXPECT_EQ(asked_.back(), id + std::min<SampleId>(id + 2, 64));
  }
}

TEST_F(ReadAheadTest, WhatIsNamedLaterIsAskedForLater) {
  begin(0, 1);
  EXPECT_THAT(asked_, ElementsAre(1));
  begin(1, 4);
  EXPECT_THAT(asked_, ElementsAre(1, 2, 3));
  begin(2, 4);
  begin(3, 4);
  begin(4, 4);
  EXPECT_THAT(asked_, ElementsAre(1, 2, 3, 4));
}

TEST_F(ReadAheadTest, OtherSamplesThanWereToldAreAskedForAnew) {
  begin(0, 2);
  begin(100, 102);
  begin(101, 102);
  EXPECT_THAT(asked_, ElementsAre(1, 2, 101, 102));
}

TEST_F(ReadAheadTest, NoMoreThan32MiBAreAskedFor) {
  for (SampleId id = 199; id < 204; ++id) begin(id, 209);
  EXPECT_THAT(asked_, ElementsAre(200, 201, 202, 203, 204, 205, 206, 207));
}

TEST_F(ReadAheadTest, AQuarterAsManyAsShardsStayOpen) {
  dataset_.shards_open = 16;
  ReadAhead read_ahead(dataset_, threads_, 0);
  for (SampleId id = 0; id < 10; ++id) begin(read_ahead, id);
  EXPECT_EQ(asked_.back(), 13U);
}

TEST_F(ReadAheadTest, SamplesOnServersThatAreDecodedAgainHaveRoomOfTheirOwn) {
  dataset_.on_servers = 210;
  dataset_.on_hold_shard = [](std::size_t) {};  // all lie on a server
  ReadAhead read_ahead(dataset_, threads_, 40);
  for (SampleId id = 0; id < 5; ++id) begin(read_ahead, id);
  // Samples of one byte, in half of the memory with the one that begins.
  EXPECT_EQ(asked_.size(), 4U + 19);
  asked_.clear();
  std::vector<std::shared_ptr<SampleRead>> again;
  for (SampleId id = 100; id < 120; ++id) again.push_back(read_ahead.read_again(id));
  EXPECT_THAT(again, Each(NotNull()));
  EXPECT_EQ(read_ahead.read_again(120), nullptr);
  run_threads();
  EXPECT_EQ(asked_.size(), 20U);
  again.pop_back();
  again.push_back(read_ahead.read_again(120));
  EXPECT_NE(again.back(), nullptr);
}

TEST_F(ReadAheadTest, WhatIsKeptLeavesRoomForWhatIsReadAgain) {
  dataset_.on_servers = 210;
  dataset_.on_hold_shard = [](std::size_t) {};
  ReadAhead read_ahead(dataset_, threads_, 40);
  const auto first = [&](SampleId id) {
    return read_ahead.decoding_begins(id, [&](std::size_t) { return std::nullopt; });
  };
  std::vector<std::shared_ptr<SampleRead>> kept;
  for (SampleId id = 0; id < 10; ++id) {
    kept.push_back(first(id));
    EXPECT_TRUE(read_ahead.keep_if_room(*kept.back()));
  }
  EXPECT_FALSE(read_ahead.keep_if_room(*first(10)));
  for (SampleId id = 100; id < 110; ++id) kept.push_back(read_ahead.read_again(id));
  EXPECT_THAT(kept, Each(NotNull()));
  EXPECT_EQ(read_ahead.read_again(110), nullptr);
  run_threads();
  kept.clear();
  EXPECT_TRUE(read_ahead.keep_if_room(*first(11)));
}

TEST_F(ReadAheadTest, WhatHasNotBegunByItsEndIsLeftOut) {
  {
    ReadAhead read_ahead(dataset_, threads_, 0);
    read_ahead.decoding_begins(0, [](std::size_t after) { return std::optional(1 + after); });
  }
  EXPECT_EQ(threads_.waiting(), 2U);
  while (threads_.waiting() > 0) threads_.run_first();
  EXPECT_THAT(asked_, ElementsAre());
}

}  // namespace
}  // namespace isocost
