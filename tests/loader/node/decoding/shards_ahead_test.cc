#include "loader/node/decoding/internal/shards_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tests/loader/node/node_support.h"

namespace isocost {
namespace {

using testing::UnorderedElementsAre;

// 200 samples in shards of 20, which begin in their order.
class ShardsAheadTest : public testing::Test {
 protected:
  ShardsAheadTest() {
    dataset_.shard_of = [](SampleId id) { return static_cast<std::size_t>(id / 20); };
    dataset_.on_hold_shard = [this](std::size_t shard) {
      const MutexLock lock(mutex_);
      held_.push_back(shard);
      changed_.notify_all();
    };
  }
  static void begin(ShardsAhead& ahead, SampleId id, SampleId last = 199) {
    ahead.decoding_begins(id, [&](std::size_t after) {
      const SampleId next = id + 1 + after;
      return next <= last ? std::optional(next) : std::nullopt;
    });
  }
  // Returns the shards that were held, when there are so many. Several threads hold them.
  std::vector<std::size_t> held(std::size_t count) {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::seconds(30),
                      [&]() ISOCOST_REQUIRES(mutex_) { return held_.size() >= count; });
    return held_;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::size_t> held_ ISOCOST_GUARDED_BY(mutex_);
  TextDataset dataset_{std::vector<std::string>(200, "x")};
};

TEST_F(ShardsAheadTest, EachShardIsHeldOnce) {
  ShardsAhead ahead(dataset_, 200);
  for (SampleId id = 0; id < 200; ++id) begin(ahead, id);
  EXPECT_THAT(held(10), UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(ShardsAheadTest, NoFurtherThanTheDistance) {
  ShardsAhead ahead(dataset_, 50);
  begin(ahead, 0);
  EXPECT_THAT(held(3), UnorderedElementsAre(0, 1, 2));
  for (SampleId id = 1; id <= 9; ++id) begin(ahead, id);
  EXPECT_THAT(held(3), UnorderedElementsAre(0, 1, 2));
  begin(ahead, 10);
  EXPECT_THAT(held(4), UnorderedElementsAre(0, 1, 2, 3));
}

TEST_F(ShardsAheadTest, OtherSamplesThanWereToldAreLookedAtAnew) {
  ShardsAhead ahead(dataset_, 50);
  begin(ahead, 0);
  EXPECT_THAT(held(3), UnorderedElementsAre(0, 1, 2));
  begin(ahead, 100);
  EXPECT_THAT(held(6), UnorderedElementsAre(0, 1, 2, 5, 6, 7));
}

}  // namespace
}  // namespace isocost
