// A start with a table opens no index and no tokens, and finds what the first start found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Replaces a file's bytes, but not its size and time, so that only who reads it can tell.
void garble(const fs::path& file) {
  const auto time = fs::last_write_time(file);
  write_file(file, std::string(fs::file_size(file), 'z'));
  fs::last_write_time(file, time);
}

// Returns the bytes that this process has read so far by calls, not through mappings.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  io >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

class DatasetTableTest : public testing::Test {
 protected:
  DatasetTableTest() {
    options_.log_remarks = false;
    options_.log = [this](LogLevel, std::string_view text) {
      const MutexLock lock(mutex_);
      log_.emplace_back(text);
    };
    write("a.tar", {{"one.txt", "1"}, {"one.json", R"({"weight": 2, "note": 1})"}});
    write("b.tar", {{"two.txt", "22"}, {"bad.png", "no picture"}, {"three.txt", "333"}});
  }
  fs::path shards() const { return scratch_ / "shards"; }
  fs::path index(const std::string& shard) const {
    return shards() / ".isocost" / (shard + ".idx");
  }
  void write(const std::string& name, const std::vector<TarFile>& files) const {
    write_file(shards() / name, make_tar(files));
  }
  std::unique_ptr<Dataset> open() {
    log_.clear();
    auto dataset = Dataset::open(shards().string(), options_);
    EXPECT_TRUE(dataset) << dataset.error().to_string();
    return dataset ? *std::move(dataset) : nullptr;
  }
  void garble_indexes() const {
    for (const char* shard : {"a.tar", "b.tar"}) garble(index(shard));
  }
  std::vector<fs::path> tables() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(shards() / ".isocost" / "tables")) {
      files.push_back(file.path());
    }
    return files;
  }
  void refuse_longer_than(std::int64_t most) {
    options_.check_shape = [most](const SampleShape& shape) {
      return shape.parts.front().text_bytes > most ? "is too long" : std::string();
    };
    options_.check_identity = static_cast<std::uint64_t>(most);
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  DatasetOptions options_;
  Mutex mutex_;
  std::vector<std::string> log_;
};

std::vector<std::string> keys_of(const Dataset& dataset) {
  std::vector<std::string> keys;
  for (SampleId id = 0; id < dataset.size(); ++id) keys.push_back(dataset.key(id));
  return keys;
}

void expect_same(const Dataset& found, const Dataset& first) {
  EXPECT_EQ(found.size(), first.size());
  EXPECT_EQ(found.fingerprint(), first.fingerprint());
  EXPECT_EQ(found.weighted().count, first.weighted().count);
  EXPECT_EQ(found.weighted().first, first.weighted().first);
  EXPECT_EQ(found.weighted().weight, first.weighted().weight);
  EXPECT_EQ(found.findings().broken.size(), first.findings().broken.size());
  EXPECT_EQ(found.findings().without_end_mark, first.findings().without_end_mark);
  EXPECT_EQ(found.indexes_not_kept(), first.indexes_not_kept());
  ASSERT_EQ(found.bad().size(), first.bad().size());
  for (std::size_t i = 0; i < found.bad().size(); ++i) {
    EXPECT_EQ(found.bad()[i].shard, first.bad()[i].shard);
    EXPECT_EQ(found.bad()[i].key, first.bad()[i].key);
    EXPECT_EQ(found.bad()[i].part, first.bad()[i].part);
    EXPECT_EQ(found.bad()[i].reason, first.bad()[i].reason);
    EXPECT_EQ(found.bad()[i].over_limit, first.bad()[i].over_limit);
  }
  ASSERT_EQ(found.remarks().size(), first.remarks().size());
  for (std::size_t i = 0; i < found.remarks().size(); ++i) {
    EXPECT_EQ(found.remarks()[i].name, first.remarks()[i].name);
    EXPECT_EQ(found.remarks()[i].count, first.remarks()[i].count);
  }
  ASSERT_EQ(found.sources().size(), first.sources().size());
  EXPECT_EQ(found.sources()[0].fingerprint, first.sources()[0].fingerprint);
  EXPECT_EQ(found.sources()[0].bad, first.sources()[0].bad);
}

TEST_F(DatasetTableTest, TheNextStartOpensNoIndex) {
  refuse_longer_than(2);
  const auto first = open();
  ASSERT_EQ(first->size(), 2U);
  EXPECT_THAT(first->bad(), testing::SizeIs(2)) << "no picture, and too long";
  garble_indexes();
  const auto second = open();
  EXPECT_THAT(log_, IsEmpty());
  expect_same(*second, *first);
  // The samples are those of the indexes, which are built again in memory.
  EXPECT_THAT(keys_of(*second), ElementsAre("one", "two"));
  EXPECT_EQ(second->shape(1).parts.at(0).text_bytes, 2);
  EXPECT_THAT(log_, Contains(HasSubstr("b.tar.idx: broken index")));
}

// This is what makes a start with 10⁹ samples one of a second.
TEST_F(DatasetTableTest, TheNextStartReadsBytesForEachShardAndNoneForEachSample) {
  std::vector<std::uint64_t> read;
  for (const int samples : {10, 2000}) {
    options_.index_dir = scratch_ / std::to_string(samples);
    std::vector<TarFile> files;
    for (int i = 0; i < samples; ++i) files.push_back({std::to_string(10'000 + i) + ".txt", "x"});
    for (const char* shard : {"a.tar", "b.tar", "c.tar"}) write(shard, files);
    ASSERT_EQ(open()->size(), 3U * static_cast<unsigned>(samples));
    const std::uint64_t before = bytes_read();
    ASSERT_EQ(open()->size(), 3U * static_cast<unsigned>(samples));
    read.push_back(bytes_read() - before);
  }
  EXPECT_LT(read[0], 3 * 1024U);
  EXPECT_NEAR(static_cast<double>(read[1]), static_cast<double>(read[0]), 64)
      << "only numbers have other lengths, in what the system says of itself";
}

TEST_F(DatasetTableTest, SaysOfAShardThatChangedWhatItIsNow) {
  (void)open();
  garble(index("a.tar"));
  write("b.tar", {{"four.txt", "4"}});
  const auto dataset = open();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("b.tar.idx: its shard, the limits")));
  EXPECT_EQ(dataset->size(), 2U);
  EXPECT_TRUE(dataset->bad().empty());
  EXPECT_EQ(dataset->key(1), "four");
}

TEST_F(DatasetTableTest, KnowsTheOtherShardsWhenSomeAreAddedOrGo) {
  const std::uint64_t both = open()->fingerprint();
  garble_indexes();
  write("c.tar", {{"five.txt", "5"}});
  EXPECT_EQ(open()->size(), 4U);
  EXPECT_THAT(log_, IsEmpty()) << "the indexes of the others are not opened";
  fs::remove(shards() / "c.tar");
  fs::remove(index("c.tar"));
  EXPECT_EQ(open()->fingerprint(), both);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(DatasetTableTest, AnIndexThatWasRemovedOrReplacedIsMadeAgain) {
  (void)open();
  fs::remove(index("a.tar"));
  EXPECT_EQ(open()->size(), 3U);
  EXPECT_TRUE(fs::exists(index("a.tar")));
  write_file(index("a.tar"), "junk");
  EXPECT_EQ(open()->size(), 3U);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("indexing again")));
  (void)open();
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(DatasetTableTest, OtherOptionsHaveATableOfTheirOwn) {
  refuse_longer_than(2);
  EXPECT_EQ(open()->size(), 2U);
  refuse_longer_than(1);
  EXPECT_EQ(open()->size(), 1U);
  garble_indexes();
  EXPECT_EQ(open()->size(), 1U);
  refuse_longer_than(2);
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_THAT(log_, IsEmpty()) << "neither replaced the other's";
  EXPECT_THAT(tables(), testing::SizeIs(2));
  options_.prune_tables = true;
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_THAT(tables(), testing::SizeIs(1));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("removed tables of other options")));
}

TEST_F(DatasetTableTest, NothingIsKeptOfAnUnknownCheck) {
  refuse_longer_than(2);
  options_.check_identity = 0;
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_FALSE(fs::exists(shards() / ".isocost" / "tables"));
}

TEST_F(DatasetTableTest, ATableThatCannotBeReadIsMadeAgain) {
  const auto first = open();
  ASSERT_THAT(tables(), testing::SizeIs(1));
  const fs::path table = tables().front();
  const std::string good = read_file(table);
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  std::string other_version = good;
  other_version[8] = 99;
  for (const std::string& broken : {std::string(), std::string("junk"),
                                    good.substr(0, good.size() - 3), flipped, other_version}) {
    write_file(table, broken);
    expect_same(*open(), *first);
    EXPECT_THAT(log_, ElementsAre(HasSubstr(table.string() + ": ")));
    EXPECT_EQ(read_file(table), good);
  }
}

// A directory in the file's place can be neither read nor replaced, not even by root, as another
// user's file.
TEST_F(DatasetTableTest, WhereTheTableCannotBeReplacedTheUsersCacheServes) {
  const auto first = open();
  const fs::path table = tables().front();
  fs::remove(table);
  fs::create_directory(table);
  const std::string cache = (scratch_ / "cache").string();
  ASSERT_EQ(setenv("XDG_CACHE_HOME", cache.c_str(), 1), 0);
  expect_same(*open(), *first);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("; the table is made again of the indexes")));
  garble_indexes();  // the second start has the table of the cache, which is newer
  expect_same(*open(), *first);
  EXPECT_THAT(log_, testing::IsEmpty());
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(DatasetTableTest, HasTheShardsOfAllSources) {
  write_file(scratch_ / "other" / "a.tar", make_tar({{"six.txt", "6"}}));
  DataSources data;
  data.given = "mixture.toml";
  data.sources = {{.name = "first", .data = shards().string()},
                  {.name = "second", .data = (scratch_ / "other").string()}};
  const auto first = Dataset::open(data, options_).value();
  garble_indexes();
  garble(scratch_ / "other" / ".isocost" / "a.tar.idx");
  log_.clear();
  const auto second = Dataset::open(data, options_).value();
  EXPECT_THAT(log_, IsEmpty());
  expect_same(*second, *first);
  EXPECT_EQ(second->sources()[1].fingerprint, first->sources()[1].fingerprint);
  EXPECT_EQ(second->bad()[0].shard, "first/b.tar");
  EXPECT_EQ(second->key(3), "six");
}

}  // namespace
}  // namespace isocost
