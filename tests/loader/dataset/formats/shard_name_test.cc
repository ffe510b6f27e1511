#include "loader/dataset/formats/shard_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace isocost {
namespace {

TEST(ShardName, HasTheEndingOfAShard) {
  for (const char* name :
       {"a.tar", "a.b.tar", "a.tar.gz", "a.tgz", "a.TAR", "a.Tar.GZ", "a.tar.zst", "a.tzst"}) {
    EXPECT_TRUE(is_shard_name(name)) << name;
    EXPECT_TRUE(has_shard_ending(name)) << name;
  }
  for (const char* name : {"a", "tar", "a.tar.bz2", "a.tar.idx", "a.gz", ""}) {
    EXPECT_FALSE(is_shard_name(name)) << name;
    EXPECT_FALSE(has_shard_ending(name)) << name;
  }
}

TEST(ShardName, HiddenFilesAreNoShards) {
  EXPECT_FALSE(is_shard_name(".a.tar"));
  EXPECT_FALSE(is_shard_name(".tar"));
  EXPECT_TRUE(has_shard_ending(".a.tar"));
}

TEST(ShardName, SaysWhichShardsAreCompressed) {
  EXPECT_TRUE(names_compressed_shard("a.tar.gz"));
  EXPECT_TRUE(names_compressed_shard("a.tgz"));
  EXPECT_TRUE(names_compressed_shard("a.tar.zst"));
  EXPECT_FALSE(names_compressed_shard("a.tar"));
  EXPECT_FALSE(names_compressed_shard("a.gz"));
}

TEST(ShardName, SaysWhyAnArchiveIsNoShard) {
  for (const char* name :
       {"a.tar.xz", "a.tar.bz2", "a.tbz2", "a.TAR.XZ", "a.zip", "a.7z", "a.tar.lzo"}) {
    EXPECT_THAT(std::string(why_no_shard(name)), testing::StartsWith("an archive")) << name;
  }
  for (const char* name :
       {"a.tar.part", "a.tar.gz.crdownload", "a.tgz.incomplete", "a.tar.aria2"}) {
    EXPECT_THAT(std::string(why_no_shard(name)), testing::HasSubstr("not completed")) << name;
  }
  EXPECT_THAT(std::string(why_no_shard("a.tar.zstd")), testing::HasSubstr("rename it to .tar.zst"));
  for (const char* name : {"a.tar.gz.1", "a.tar.12", "a.TGZ.001"}) {
    EXPECT_THAT(std::string(why_no_shard(name)), testing::HasSubstr("a second download")) << name;
  }
  for (const char* name : {"a.tar.idx", "a.tar.md5", "a.json", "a.parquet", "README", "a.part",
                           "a.aria2", "a.log.1", "a.tar.", "a.tar1", "1", ""}) {
    EXPECT_EQ(why_no_shard(name), "") << name;
  }
}

TEST(ShardName, MessagesHaveAllEndings) {
  const std::string names(kShardNames);
  std::size_t endings = 0;
  for (std::size_t at = 0; at < names.size(); ++endings) {
    const std::size_t end = std::min(names.find(", ", at), names.size());
    EXPECT_TRUE(is_shard_name("a" + names.substr(at + 1, end - at - 1)));
    at = end + 2;
  }
  EXPECT_EQ(endings, 5U);
}

}  // namespace
}  // namespace isocost
