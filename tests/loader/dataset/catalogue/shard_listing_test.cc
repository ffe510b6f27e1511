#include "loader/dataset/catalogue/shard_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

TEST(ShardListing, TellsShardsFromLostOnes) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path directory = scratch / "data";
  for (const char* name : {"b.tar", "a.tgz", "notes.txt", ".c.tar"}) {
    write_file(directory / name, "x");
  }
  fs::create_directory(directory / "e.tar");
  fs::create_symlink("nowhere", directory / "d.tar.gz");
  const ShardListing listing = list_shards(directory).value();
  EXPECT_THAT(listing.shards, ElementsAre(directory / "a.tgz", directory / "b.tar"));
  ASSERT_EQ(listing.lost.size(), 2U);
  EXPECT_EQ(listing.lost[0].shard, "d.tar.gz");
  EXPECT_EQ(listing.lost[0].key, "");
  EXPECT_THAT(listing.lost[0].reason, StartsWith("a broken link"));
  EXPECT_EQ(listing.lost[1].shard, "e.tar");
}

TEST(ShardListing, ADirectoryOfLostShardsIsNotEmpty) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  fs::create_directories(scratch / "data" / "a.tar");
  const ShardListing listing = list_shards(scratch / "data").value();
  EXPECT_TRUE(listing.shards.empty());
  EXPECT_EQ(listing.lost.size(), 1U);
}

TEST(ShardListing, SaysWhatToGiveInstead) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto nowhere = list_shards(scratch / "nowhere");
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(nowhere.error().message(),
              EndsWith("nowhere: no such directory; give the one that holds the shards (*.tar, "
                       "*.tar.gz, *.tgz)"));
  fs::create_directory(scratch / "empty");
  const auto empty = list_shards(scratch / "empty");
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(empty.error().message(),
              EndsWith("empty: no shards (*.tar, *.tar.gz, *.tgz) in it; 'isocost make-shards' "
                       "writes them"));
}

}  // namespace
}  // namespace isocost
