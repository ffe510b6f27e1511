#include "loader/dataset/index/open_indexes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/index/maker_lock.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

class OpenIndexesTest : public testing::Test {
 protected:
  OpenIndexesTest() {
    const auto root =
        std::make_shared<const ShardRoot>(ShardRoot{scratch_.path(), {scratch_ / "indexes"}});
    for (int i = 0; i < 9; ++i) {
      const std::string digit = std::to_string(i);
      shards_.push_back({root, digit + ".tar"});
      write_file(shards_.back().path(), make_tar({{"key" + digit + ".txt", "text"}}));
    }
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::vector<ShardPlace> shards_;
  IndexingOptions options_;
};

TEST_F(OpenIndexesTest, AreInTheOrderOfTheShards) {
  for (const std::size_t workers : {1U, 4U, 0U}) {
    options_.workers = workers;
    fs::remove_all(scratch_ / "indexes");
    const auto indexes = open_indexes(shards_, options_);
    ASSERT_TRUE(indexes.has_value()) << indexes.error().to_string();
    ASSERT_EQ(indexes->size(), shards_.size());
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      EXPECT_EQ((*indexes)[i]->view().key(0), "key" + std::to_string(i));
      EXPECT_TRUE((*indexes)[i]->kept());
    }
  }
}

TEST_F(OpenIndexesTest, TellsEachShardThatIsDone) {
  Mutex mutex;
  std::vector<std::uint64_t> counts;
  std::vector<std::string> names;
  options_.workers = 3;
  options_.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    const MutexLock lock(mutex);
    EXPECT_EQ(total, 9U);
    counts.push_back(done);
    names.emplace_back(what);
  };
  ASSERT_TRUE(open_indexes(shards_, options_).has_value());
  EXPECT_THAT(counts, UnorderedElementsAreArray({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  std::vector<std::string> wanted;
  for (const ShardPlace& shard : shards_) wanted.push_back(shard.name);
  EXPECT_THAT(names, UnorderedElementsAreArray(wanted));
}

TEST_F(OpenIndexesTest, AShardThatCannotBeReadEndsThem) {
  fs::remove(shards_[0].path());
  options_.workers = 1;
  std::uint64_t done = 0;
  options_.progress = [&](std::uint64_t, std::uint64_t, std::string_view) { ++done; };
  const auto indexes = open_indexes(shards_, options_);
  ASSERT_FALSE(indexes.has_value());
  EXPECT_EQ(indexes.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(indexes.error().message(), HasSubstr("0.tar"));
  EXPECT_EQ(done, 0U) << "no further shard is begun";
}

TEST_F(OpenIndexesTest, AStopEndsThem) {
  std::stop_source stop;
  options_.stop = stop.get_token();
  stop.request_stop();
  EXPECT_EQ(open_indexes(shards_, options_).error().code(), ErrorCode::kCancelled);
}

// While another process makes indexes: some shards have one already, and others wait for it.
class OpenIndexesMeanwhile : public OpenIndexesTest {
 protected:
  static constexpr std::chrono::seconds kBroken{20};  // Only a broken program takes so long.

  // Makes the indexes of all shards except the first `missing`, and then takes the lock.
  void index_all_but(std::size_t missing) {
    ASSERT_TRUE(open_indexes(std::span(shards_).subspan(missing), options_).has_value());
    held_ = MakerLockRequest(scratch_ / "indexes/index.lock", "them", {}).poll().value();
    ASSERT_NE(held_, nullptr);
  }

  std::unique_ptr<MakerLock> held_;
};

TEST_F(OpenIndexesMeanwhile, ThoseThatAreThereAreOpenedAndTold) {
  index_all_but(1);
  options_.workers = 2;
  std::promise<void> others;
  bool were_told = false;
  options_.progress = [&](std::uint64_t done, std::uint64_t, std::string_view) {
    if (done == 8) others.set_value();
  };
  // The thread that waits says for whom, and nobody else waits until it has said it.
  options_.log = [&](LogLevel, std::string_view) {
    were_told = others.get_future().wait_for(kBroken) == std::future_status::ready;
    held_.reset();
  };
  const auto indexes = open_indexes(shards_, options_);
  ASSERT_TRUE(indexes.has_value()) << indexes.error().to_string();
  EXPECT_TRUE(were_told);
  EXPECT_EQ(indexes->front()->view().key(0), "key0");
}

TEST_F(OpenIndexesMeanwhile, AFailureEndsTheWait) {
  index_all_but(2);
  fs::remove(shards_[8].path());
  options_.workers = 3;
  std::promise<void> waiting;
  const std::shared_future<void> waits = waiting.get_future().share();
  options_.log = [&](LogLevel, std::string_view) { waiting.set_value(); };
  options_.progress = [&](std::uint64_t, std::uint64_t, std::string_view) { waits.wait(); };
  auto opened = std::async(std::launch::async, [&] { return open_indexes(shards_, options_); });
  EXPECT_EQ(opened.wait_for(kBroken), std::future_status::ready) << "it waits for the lock";
  held_.reset();
  const auto indexes = opened.get();
  ASSERT_FALSE(indexes.has_value());
  EXPECT_EQ(indexes.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(indexes.error().message(), HasSubstr("8.tar"));
}

TEST_F(OpenIndexesMeanwhile, AStopEndsTheWaitOfAll) {
  index_all_but(5);
  options_.workers = 5;
  std::stop_source stop;
  options_.stop = stop.get_token();
  options_.log = [&](LogLevel, std::string_view) { stop.request_stop(); };
  EXPECT_EQ(open_indexes(shards_, options_).error().code(), ErrorCode::kCancelled);
}

TEST_F(OpenIndexesTest, OfNoShardsThereAreNone) {
  EXPECT_TRUE(open_indexes({}, options_).value().empty());
}

}  // namespace
}  // namespace isocost
