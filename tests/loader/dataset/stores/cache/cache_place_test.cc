// Which directories may be a cache.
#include "loader/dataset/stores/cache/internal/cache_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/scratch_directory.h"
#include "loader/dataset/stores/cache/cache_directory.h"
#include "loader/dataset/stores/cache/object_cache.h"
#include "tests/loader/dataset/stores/cache/cached_reads.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class CachePlace : public testing::Test {
 protected:
  std::string refusal() const {
    const auto opened = ObjectCache::open({.directory = directory_});
    if (opened) return "";
    EXPECT_EQ(opened.error().code(), ErrorCode::kInvalidArgument);
    return opened.error().message();
  }
  const ScratchDirectory scratch_ = ScratchDirectory::create("cache-place").value();
  fs::path directory_ = scratch_ / "a";
};

TEST_F(CachePlace, ADirectoryIsMadeWithThoseAboveIt) {
  directory_ = scratch_ / "b/c/d";
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(refusal(), "");  // it is there now
  EXPECT_EQ(read_file(directory_ / kCacheMark), "isocost cache, version 1\n");
}

TEST_F(CachePlace, AnEmptyDirectoryBecomesItsUsersAlone) {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms(0755));
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms(0700));
}

TEST_F(CachePlace, ADirectoryWithOtherFilesIsRefusedAndLeftAsItIs) {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms(0755));
  write_file(directory_ / "thesis.tex", "x");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(directory_.string()), HasSubstr("holds other files"),
                               HasSubstr("give an empty directory")));
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms(0755));
  EXPECT_FALSE(fs::exists(directory_ / kCacheMark));
}

TEST_F(CachePlace, AFileIsRefused) {
  write_file(directory_, "x");
  EXPECT_THAT(refusal(), HasSubstr("no directory"));
}

TEST_F(CachePlace, AnotherVersionIsLeftAloneUntilItIsEmptied) {
  fs::create_directory(directory_);
  write_file(directory_ / kCacheMark, "isocost cache, version 7\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("version 7"), HasSubstr("isocost cache rm"),
                               HasSubstr(directory_.string())));
  EXPECT_FALSE(list_cache(directory_));
  EXPECT_FALSE(verify_cache(directory_, [](std::string_view) {}));
  EXPECT_EQ(read_file(directory_ / kCacheMark), "isocost cache, version 7\n");
  EXPECT_TRUE(remove_cached(directory_, ""));
  EXPECT_EQ(refusal(), "");
}

TEST_F(CachePlace, AnotherUsersIsRefused) {
  fs::create_directory(directory_);
  if (::chown(directory_.c_str(), ::geteuid() + 1, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root gives directories to other users";
  }
  EXPECT_THAT(refusal(), AllOf(HasSubstr("belongs to user"), HasSubstr("give a directory")));
}

TEST_F(CachePlace, NetworksAreNamed) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(static_cast<long>(static_cast<int>(0xFE534D42))), "SMB");
  EXPECT_EQ(network_file_system(0xFF534D42L), "CIFS");
  EXPECT_EQ(network_file_system(0x65735546), "FUSE");
  for (const long local : {0xEF53L, 0x58465342L, 0x9123683EL, 0x01021994L, 0x794C7630L}) {
    EXPECT_EQ(network_file_system(local), "");  // ext4, XFS, btrfs, tmpfs, overlay
  }
}

TEST_F(CachePlace, ADirectoryThatIsNoCacheIsNotListed) {
  const auto absent = list_cache(directory_);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  fs::create_directory(directory_);
  const auto other = remove_cached(directory_, "");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message(), HasSubstr("it is no cache"));
}

TEST_F(CachePlace, ASizeThatIsNoneIsRefused) {
  EXPECT_FALSE(ObjectCache::open({.directory = directory_, .max_bytes = 0}));
}

}  // namespace
}  // namespace isocost
