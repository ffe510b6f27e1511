#include "base/scratch_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The environment's TMPDIR is another one for as long as this lives.
class TemporaryFilesIn {
 public:
  explicit TemporaryFilesIn(const fs::path& directory) {
    const char* before = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): one thread
    if (before != nullptr) before_ = before;
    setenv("TMPDIR", directory.c_str(), 1);
  }
  ~TemporaryFilesIn() { before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR"); }
  TemporaryFilesIn(const TemporaryFilesIn&) = delete;
  TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(ScratchDirectory, IsNewEmptyAndPrivate) {
  const auto first = ScratchDirectory::create("isocost-scratch-test").value();
  const auto second = ScratchDirectory::create("isocost-scratch-test").value();
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(fs::is_empty(first.path()));
  EXPECT_THAT(first.path().filename().string(), StartsWith("isocost-scratch-test-"));
  EXPECT_EQ(fs::status(first.path()).permissions(), fs::perms::owner_all);
}

TEST(ScratchDirectory, IsRemovedWithItsContents) {
  fs::path path;
  {
    const auto scratch = ScratchDirectory::create("isocost-scratch-test").value();
    path = scratch.path();
    fs::create_directories(scratch / "a" / "b");
    std::ofstream(scratch / "a" / "b" / "file") << "text";
    ASSERT_TRUE(fs::exists(path / "a" / "b" / "file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(ScratchDirectory, AMoveTransfersOwnership) {
  std::optional<ScratchDirectory> first = ScratchDirectory::create("isocost-scratch-test").value();
  const fs::path path = first->path();
  const ScratchDirectory second = *std::move(first);
  first.reset();
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(second.path(), path);
}

TEST(ScratchDirectory, LiesInTmpdir) {
  const auto parent = ScratchDirectory::create("isocost-scratch-test").value();
  const TemporaryFilesIn there(parent.path());
  EXPECT_EQ(ScratchDirectory::create("inner").value().path().parent_path(), parent.path());
}

TEST(ScratchDirectory, ErrorsNameTheDirectoryAndTmpdir) {
  const auto parent = ScratchDirectory::create("isocost-scratch-test").value();
  const TemporaryFilesIn there(parent / "missing");
  const auto refused = ScratchDirectory::create("inner");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr((parent / "missing").string()), HasSubstr("TMPDIR")));
}

}  // namespace
}  // namespace isocost
