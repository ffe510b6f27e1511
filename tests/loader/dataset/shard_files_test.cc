#include "loader/dataset/internal/shard_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/index/internal/open_index.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ShardFilesTest : public testing::Test {
 protected:
  ShardFilesTest() { write_file(path(), make_tar({{"a.txt", "x"}})); }
  fs::path path() const { return scratch_ / "a.tar"; }
  fs::path index_file() const { return scratch_ / "indexes" / "a.tar.idx"; }
  Shard shard(const std::vector<fs::path>& directories) const {
    const ShardPlace place{
        std::make_shared<const ShardRoot>(ShardRoot{scratch_.path(), directories}), "a.tar"};
    return {place, open_or_build_index({place, {}, {}, {}}).value(), nullptr};
  }
  Shard shard() const { return shard({scratch_ / "indexes"}); }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  ShardFiles files_;
};

TEST_F(ShardFilesTest, StayOpen) {
  const Shard indexed = shard();
  const auto first = files_.open(indexed);
  ASSERT_TRUE(first.has_value()) << first.error().to_string();
  EXPECT_EQ(files_.open(indexed).value(), *first);
  EXPECT_GE(files_.max_open(), 1U);
}

TEST_F(ShardFilesTest, TheIndexOfAFileThatIsNotTheIndexedOneIsStale) {
  const Shard indexed = shard();
  ASSERT_TRUE(fs::exists(index_file()));
  write_file(path(), make_tar({{"a.txt", "x"}, {"b.txt", std::string(20'000, 'y')}}));
  const auto file = files_.open(indexed);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(file.error().message(), HasSubstr("has changed since it was indexed"));
  EXPECT_EQ(ShardIndex::map(index_file()).value()->view().identity().stamp.bytes, -1);
  EXPECT_EQ(ShardIndex::map(index_file()).value()->view().samples_when_whole(), 1U)
      << "for the message that says what a shard has lost";
  EXPECT_EQ(shard().samples(), 2U);
}

TEST_F(ShardFilesTest, AMissingFileKeepsItsIndex) {
  const Shard indexed = shard();
  fs::remove(path());
  EXPECT_EQ(files_.open(indexed).error().code(), ErrorCode::kNotFound);
  files_.read_ahead(indexed, {}, {});  // failures are left to `open`
  EXPECT_TRUE(fs::exists(index_file()));
}

TEST_F(ShardFilesTest, TheRecordOfTheLastCheckIsBesideTheIndex) {
  const Shard indexed = shard();
  EXPECT_TRUE(files_.is_as_last_checked(indexed, {}).value());
  EXPECT_TRUE(fs::exists(scratch_ / "indexes" / "a.tar.checked"));
  EXPECT_TRUE(files_.is_as_last_checked(indexed, {}).value());
}

TEST_F(ShardFilesTest, WithoutAKeptIndexThereIsNoRecord) {
  const Shard indexed = shard({});
  EXPECT_FALSE(indexed.index().kept());
  EXPECT_TRUE(files_.is_as_last_checked(indexed, {}).value());
}

}  // namespace
}  // namespace isocost
