#include "loader/dataset/stores/directory_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

bool every_name(std::string_view /*name*/) { return true; }

TEST(DirectoryListing, HasTheWantedNamesInOrder) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  for (const char* name : {"c.tar", "a.tar", "b.txt", "b.tar"}) write_file(scratch / name, "x");
  const auto files =
      list_directory(scratch / "", [](std::string_view name) { return name.ends_with(".tar"); });
  ASSERT_TRUE(files.has_value()) << files.error().to_string();
  ASSERT_EQ(files->size(), 3U);
  EXPECT_EQ((*files)[0].name, "a.tar");
  EXPECT_EQ((*files)[0].path, scratch / "a.tar");
  EXPECT_EQ((*files)[0].problem, "");
  EXPECT_EQ((*files)[1].name, "b.tar");
  EXPECT_EQ((*files)[2].name, "c.tar");
}

TEST(DirectoryListing, SaysWhatIsNoFile) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path directory = scratch / "listed";
  write_file(directory / "0", "x");
  fs::create_directory(directory / "1");
  fs::create_symlink("nowhere", directory / "2");
  ASSERT_EQ(::mkfifo((directory / "3").c_str(), 0600), 0);
  fs::create_symlink("0", directory / "4");
  const auto files = list_directory(directory, every_name).value();
  ASSERT_EQ(files.size(), 5U);
  EXPECT_EQ(files[0].problem, "");
  EXPECT_FALSE(files[0].is_directory);
  EXPECT_THAT(files[1].problem, StartsWith("a directory; "));
  EXPECT_TRUE(files[1].is_directory);
  EXPECT_THAT(files[2].problem, StartsWith("a broken link; "));
  EXPECT_THAT(files[3].problem, StartsWith("not a file; "));
  EXPECT_EQ(files[4].problem, "") << "a link to a file";
}

TEST(DirectoryListing, FindsAFileBelow) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto is_tar = [](std::string_view name) { return name.ends_with(".tar"); };
  write_file(scratch / "a/b/notes.txt", "x");
  write_file(scratch / "a/.hidden/x.tar", "x");
  fs::create_directories(scratch / "a/directory.tar");
  fs::create_directory_symlink(scratch / "a", scratch / "a/loop");
  EXPECT_EQ(find_below(scratch / "a", is_tar), fs::path());
  write_file(scratch / "a/b/c/y.tar", "x");
  EXPECT_EQ(find_below(scratch / "a", is_tar), scratch / "a/b/c/y.tar");
  EXPECT_EQ(find_below(scratch / "nowhere", is_tar), fs::path());
}

TEST(DirectoryListing, ADirectoryThatIsMissingIsNotFound) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto files = list_directory(scratch / "nowhere", every_name);
  ASSERT_FALSE(files.has_value());
  EXPECT_EQ(files.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(files.error().message(), HasSubstr("nowhere: no such directory"));
}

}  // namespace
}  // namespace isocost
