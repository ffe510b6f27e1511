#include "loader/dataset/names/internal/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

class FileKindTest : public testing::Test {
 protected:
  Result<FileKind> kind(std::string_view name, const std::string& bytes) const {
    write_file(scratch_ / name, bytes);
    return kind_of_file(scratch_ / name);
  }
  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(FileKindTest, FollowsFromTheFirstBytes) {
  EXPECT_EQ(kind("download", make_tar({{"a.txt", "x"}})).value(), FileKind::kShard);
  EXPECT_EQ(kind("packed", "\x1F\x8B\x08").value(), FileKind::kShard);
  EXPECT_EQ(kind("packed", "\x28\xB5\x2F\xFD").value(), FileKind::kShard);
  EXPECT_EQ(kind("docs.jsonl", "{\"text\": 1}\n").value(), FileKind::kRecords);
  EXPECT_EQ(kind("docs.json", "\xEF\xBB\xBF\n [").value(), FileKind::kRecords);
  EXPECT_EQ(kind("shards.txt", "a.tar\nb.tar\n").value(), FileKind::kList);
  EXPECT_EQ(kind("list", "caf\xE9.tar\n").value(), FileKind::kList) << "names may be any bytes";
  EXPECT_EQ(kind("array.json", "[\n  {\"text\": 1}]").value(), FileKind::kRecords);
  EXPECT_EQ(kind("empty.json", "[]").value(), FileKind::kRecords);
  EXPECT_EQ(kind("list", "{en,fr}/*.tar\n").value(), FileKind::kList);
  EXPECT_EQ(kind("list", "[ab].tar\n").value(), FileKind::kList);
}

TEST_F(FileKindTest, AShardsEndingSaysWhatIsMeant) {
  EXPECT_EQ(kind("a.tar", "").value(), FileKind::kShard) << "it is damaged";
  EXPECT_EQ(kind("a.tar.gz", "text").value(), FileKind::kShard);
}

TEST_F(FileKindTest, OtherFilesAreRefused) {
  EXPECT_THAT(kind("empty", "").error().message(), HasSubstr("it is empty; give a shard ("));
  EXPECT_THAT(kind("a.bin", "\x00\x01"s).error().message(),
              HasSubstr("it is no tar file, no JSON and no text; give"));
  EXPECT_EQ(kind("a.bin", std::string(512, '\0')).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(kind_of_file(scratch_ / "nowhere").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace isocost
