#include "loader/dataset/catalogue/shard_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/made_shards.h"
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
  const ShardListing listing = list_shards(directory, {}).value();
  EXPECT_THAT(listing.shards, ElementsAre(directory / "a.tgz", directory / "b.tar"));
  ASSERT_EQ(listing.lost.size(), 2U);
  EXPECT_EQ(listing.lost[0].name, "d.tar.gz");
  EXPECT_TRUE(listing.lost[0].lost);
  EXPECT_THAT(listing.lost[0].reason, StartsWith("a broken link"));
  EXPECT_EQ(listing.lost[1].name, "e.tar");
}

TEST(ShardListing, ADirectoryOfLostShardsIsNotEmpty) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  fs::create_directories(scratch / "data" / "a.tar");
  const ShardListing listing = list_shards(scratch / "data", {}).value();
  EXPECT_TRUE(listing.shards.empty());
  EXPECT_EQ(listing.lost.size(), 1U);
}

TEST(ShardListing, NamesArchivesAndDirectoriesThatAreNotRead) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path directory = scratch / "data";
  for (const char* name : {"a.tar", "b.tar.xz", "c.zip", "d.tar.part", "train/en/0.tar",
                           "pictures/0.jpg", ".hidden/0.tar", "a.tar.md5", ".isocost/0.tar.xz"}) {
    write_file(directory / name, "x");
  }
  const ShardListing listing = list_shards(directory, {}).value();
  EXPECT_THAT(listing.shards, ElementsAre(directory / "a.tar"));
  EXPECT_TRUE(listing.lost.empty());
  EXPECT_THAT(listing.unread,
              ElementsAre(StartsWith("b.tar.xz: an archive of a format that is not read; pack"),
                          StartsWith("c.zip: an archive"),
                          StartsWith("d.tar.part: a shard whose download was not completed"),
                          StartsWith("train: a directory that holds shards (0.tar)")));
  fs::remove(directory / "a.tar");
  EXPECT_THAT(list_shards(directory, {}).error().message(),
              testing::HasSubstr("in it; there is b.tar.xz: an archive of a format that is not "
                                 "read"));
}

TEST(ShardListing, AShardThatIsAbsentWhileItsIndexIsThereIsLost) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path indexes = scratch / "indexes";
  IndexContents contents = contents_of({"a", "b"});
  contents.archive.samples_when_whole = 2;
  const auto write_index = [&](const std::string& name) {
    const std::vector<std::byte> bytes = encode_index(contents);
    write_file(indexes / name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  write_index("gone.tar.idx");
  write_file(indexes / "old.tar.idx", "the index of an earlier version");
  write_file(indexes / "here.tar.idx", "");
  write_file(indexes / "gone.tar.tokens", "");
  write_file(scratch / "data/here.tar", "x");
  contents = {};
  contents.archive.condition = ShardCondition::kLost;  // it was empty, and was removed
  write_index("removed.tar.idx");
  const std::vector<fs::path> directories = {indexes, scratch / "none"};
  const ShardListing listing = list_shards(scratch / "data", directories).value();
  ASSERT_EQ(listing.lost.size(), 2U);
  EXPECT_EQ(listing.lost[0].name, "gone.tar");
  EXPECT_TRUE(listing.lost[0].lost);
  EXPECT_EQ(listing.lost[0].samples_when_whole, 2U);
  EXPECT_EQ(listing.lost[0].reason,
            "it is absent, while its index is there; put it back, or delete " +
                (indexes / "gone.tar.idx").string() + " if it was meant to go");
  EXPECT_EQ(listing.lost[1].name, "old.tar");
  fs::create_symlink("nowhere", scratch / "data/gone.tar");
  EXPECT_EQ(list_shards(scratch / "data", directories).value().lost[0].samples_when_whole, 2U)
      << "a broken link had samples, too";
  fs::remove(scratch / "data/gone.tar");
  fs::remove(scratch / "data/here.tar");
  EXPECT_EQ(list_shards(scratch / "data", directories).value().lost.size(), 3U);
}

TEST(ShardListing, SaysWhatToGiveInstead) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto nowhere = list_shards(scratch / "nowhere", {});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(nowhere.error().message(),
              EndsWith("nowhere: no such directory; give the one that holds the shards (*.tar, "
                       "*.tar.gz, *.tgz, *.tar.zst, *.tzst)"));
  fs::create_directory(scratch / "empty");
  const auto empty = list_shards(scratch / "empty", {});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(empty.error().message(), EndsWith("empty: no shards (*.tar, *.tar.gz, *.tgz, "
                                                "*.tar.zst, *.tzst) in it; 'isocost make-shards' "
                                                "writes them"));
}

}  // namespace
}  // namespace isocost
