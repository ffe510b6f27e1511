#include "loader/dataset/index/open_indexes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

class OpenIndexesTest : public testing::Test {
 protected:
  OpenIndexesTest() {
    options_.directories = {scratch_ / "indexes"};
    for (int i = 0; i < 9; ++i) {
      const std::string digit = std::to_string(i);
      shards_.push_back(scratch_ / (digit + ".tar"));
      write_file(shards_.back(), make_tar({{"key" + digit + ".txt", "text"}}));
    }
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::vector<fs::path> shards_;
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
  for (const fs::path& shard : shards_) wanted.push_back(shard.filename().string());
  EXPECT_THAT(names, UnorderedElementsAreArray(wanted));
}

TEST_F(OpenIndexesTest, AShardThatCannotBeReadEndsThem) {
  fs::remove(shards_[0]);
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

TEST_F(OpenIndexesTest, OfNoShardsThereAreNone) {
  EXPECT_TRUE(open_indexes({}, options_).value().empty());
}

}  // namespace
}  // namespace isocost
