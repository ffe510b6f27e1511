#include "loader/dataset/catalogue/open_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/index/open_indexes.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class OpenShardsTest : public testing::Test {
 protected:
  static constexpr std::size_t kShards = 5;

  OpenShardsTest() {
    for (std::size_t i = 0; i < kShards; ++i) {
      write_file(path(i), make_tar({{"k" + std::to_string(i) + ".txt", "x"}}));
    }
    set_index_time_back();
  }
  static std::string name(std::size_t i) { return std::to_string(i) + ".tar"; }
  fs::path path(std::size_t i) const { return scratch_ / "data" / name(i); }
  fs::path index(std::size_t i) const {
    return scratch_ / "data" / ".isocost" / (name(i) + ".idx");
  }
  std::vector<ShardPlace> places() const {
    const auto root = shard_root(scratch_ / "data", {});
    std::vector<ShardPlace> places;
    for (std::size_t i = 0; i < kShards; ++i) places.push_back({root, name(i)});
    return places;
  }
  // Makes the indexes with some limits.
  void make_indexes(std::int64_t max_pixels = ProbeLimits{}.max_pixels) const {
    IndexingOptions options;
    options.limits.max_pixels = max_pixels;
    ASSERT_TRUE(open_indexes(places(), options));
  }
  void set_index_time_back() const {
    make_indexes();
    for (std::size_t i = 0; i < kShards; ++i) {
      fs::last_write_time(index(i), fs::last_write_time(index(i)) - std::chrono::seconds(10));
    }
  }
  std::unique_ptr<const OpenShards> shards(std::size_t most_open = OpenShards::kMostOpen) {
    const auto source = std::make_shared<const SourceReading>();
    std::vector<KnownShard> known;
    for (const ShardPlace& place : places()) {
      const Shard shard(place, ShardIndex::map(index(known.size())).value(), nullptr);
      known.push_back({.place = place,
                       .source = source,
                       .row = row_of(shard, ShardSelection(shard.samples(), {}, {}))});
    }
    const LogSink log = [this](LogLevel, std::string_view text) { log_.emplace_back(text); };
    return std::make_unique<const OpenShards>(std::move(known), log, most_open);
  }
  // Returns how many indexes this process maps.
  std::size_t mapped() const {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
      if (line.find(scratch_.path().string()) != std::string::npos) ++count;
    }
    return count;
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::vector<std::string> log_;
};

TEST_F(OpenShardsTest, MapFilesWhenTheyAreAskedFor) {
  const auto shards = this->shards();
  EXPECT_EQ(mapped(), 0U);
  const auto third = shards->open(2).value();
  EXPECT_EQ(third->name(), "2.tar");
  EXPECT_EQ(third->view().key(0), "k2");
  EXPECT_EQ(mapped(), 1U);
  EXPECT_EQ(shards->open(2).value(), third);
}

TEST_F(OpenShardsTest, CloseThoseThatWereNotUsedForLongest) {
  const auto shards = this->shards(2);
  const auto held = shards->open(0).value();
  for (std::size_t i = 1; i < kShards; ++i) {
    ASSERT_TRUE(shards->open(1));  // used all the time
    ASSERT_TRUE(shards->open(i));
  }
  EXPECT_EQ(mapped(), 3U) << "two, and the one that is held";
  EXPECT_EQ(held->view().key(0), "k0");
  const auto last = shards->open(kShards - 1).value();
  EXPECT_NE(shards->open(0).value(), held) << "opened again";
  EXPECT_EQ(shards->open(kShards - 1).value(), last);
}

TEST_F(OpenShardsTest, AnIndexThatVanishedIsBuiltInMemory) {
  const auto shards = this->shards();
  fs::remove(index(0));
  EXPECT_EQ(shards->open(0).value()->view().key(0), "k0");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("0.tar.idx: it is gone; the index of")));
  EXPECT_FALSE(fs::exists(index(0)));
}

TEST_F(OpenShardsTest, AnIndexThatAnotherJobReplacedIsBuiltInMemory) {
  const auto shards = this->shards();
  make_indexes(1000);
  EXPECT_EQ(shards->open(3).value()->view().key(0), "k3");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("3.tar.idx: another job has replaced it")));
  make_indexes();  // the same again
  EXPECT_TRUE(shards->open(4));
  EXPECT_THAT(log_, testing::SizeIs(1));
}

TEST_F(OpenShardsTest, AShardThatChangedIsUnavailableUntilItIsBack) {
  const auto shards = this->shards();
  const std::string bytes = read_file(path(1));
  const auto time = fs::last_write_time(path(1));
  write_file(path(1), make_tar({{"other.txt", std::string(20'000, 'y')}}));
  make_indexes();
  const auto changed = shards->open(1);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(changed.error().message(), HasSubstr(path(1).string() + ": has changed"));
  write_file(path(1), bytes);
  fs::last_write_time(path(1), time);
  EXPECT_EQ(shards->open(1).value()->view().key(0), "k1");
}

TEST_F(OpenShardsTest, AFileThatWasCutIsNamed) {
  const auto shards = this->shards(1);
  ASSERT_TRUE(shards->open(0));
  const std::string bytes = read_file(index(0));
  for (const std::size_t i : {0U, 1U}) {
    fs::resize_file(index(i), 100);
    ASSERT_TRUE(shards->open(2));  // closes the first one
    const auto cut = shards->open(i);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(cut.error().message(), HasSubstr(index(i).string() + ": it was cut"));
  }
  write_file(index(0), bytes);
  EXPECT_FALSE(shards->open(0)) << "values of before may have been wrong";
}

TEST_F(OpenShardsTest, ABrokenIndexIsRemovedAndBuiltInMemory) {
  const auto shards = this->shards();
  const auto time = fs::last_write_time(index(2));
  write_file(index(2), std::string(fs::file_size(index(2)), 'z'));
  fs::last_write_time(index(2), time);
  EXPECT_EQ(shards->open(2).value()->view().key(0), "k2");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("2.tar.idx: broken index: not an index file; the")));
  EXPECT_FALSE(fs::exists(index(2)));
}

}  // namespace
}  // namespace isocost
